package heapgraph

// none is the number of a node that cannot be reached from a root. The algorithm adds a virtual root with the number 0,
// which refers to all roots. Node n of the graph has the number n+1.
const none = ^uint32(0)

// dominate computes the dominator of each object, and the memory that each object retains. The dominator is the
// nearest object without which no root would reach the object. The algorithm is semi-NCA (Georgiadis, 2005), a form of
// Lengauer and Tarjan's.
func (g *Graph) dominate() {
	if g.dominators != nil {
		return
	}
	n := len(g.Nodes) + 1
	pre := make([]uint32, n) // for each node's number: the place of the node in the walk
	for i := range pre {
		pre[i] = none
	}
	walk := make([]uint32, 0, n) // the numbers of the nodes, in the order of a depth-first walk
	parent := make([]uint32, 0, n)
	type step struct{ at, next uint32 }
	roots := make([]uint32, len(g.Roots))
	for i, r := range g.Roots {
		roots[i] = r.Node
	}
	successors := func(number uint32) []uint32 {
		if number == 0 {
			return roots
		}
		return g.to[g.first[number-1]:g.first[number]]
	}
	pre[0], walk, parent = 0, append(walk, 0), append(parent, 0)
	for stack := []step{{}}; len(stack) > 0; {
		top := &stack[len(stack)-1]
		list := successors(walk[top.at])
		if int(top.next) == len(list) {
			stack = stack[:len(stack)-1]
			continue
		}
		v := list[top.next] + 1
		top.next++
		if pre[v] != none {
			continue
		}
		at := uint32(len(walk))
		pre[v], walk, parent = at, append(walk, v), append(parent, top.at)
		stack = append(stack, step{at: at})
	}
	reached := len(walk)
	// From here on, the number of a node is its position in the walk from the roots. The nodes that refer to the node n
	// are before[begin[n]:begin[n+1]].
	begin := make([]uint32, reached+1)
	each := func(f func(from, to uint32)) {
		for at := range reached {
			for _, v := range successors(walk[at]) {
				f(uint32(at), pre[v+1])
			}
		}
	}
	each(func(_, to uint32) { begin[to+1]++ })
	for i := range reached {
		begin[i+1] += begin[i]
	}
	before, next := make([]uint32, begin[reached]), make([]uint32, reached)
	copy(next, begin)
	each(func(from, to uint32) { before[next[to]] = from; next[to]++ })
	semi, label, ancestor := make([]uint32, reached), make([]uint32, reached), make([]uint32, reached)
	for i := range reached {
		semi[i], label[i], ancestor[i] = uint32(i), uint32(i), none
	}
	var chain []uint32
	// best finds the node with the smallest semi-dominator on the path of linked nodes above v. It also shortens this
	// path for later calls.
	best := func(v uint32) uint32 {
		chain = chain[:0]
		for u := v; ancestor[u] != none; u = ancestor[u] {
			chain = append(chain, u)
		}
		for i := len(chain) - 2; i >= 0; i-- {
			u, up := chain[i], chain[i+1]
			if semi[label[up]] < semi[label[u]] {
				label[u] = label[up]
			}
			ancestor[u] = ancestor[up]
		}
		return label[v]
	}
	for w := reached - 1; w > 0; w-- {
		for _, v := range before[begin[w]:begin[w+1]] {
			least := v
			if v > uint32(w) {
				least = best(v)
			}
			semi[w] = min(semi[w], semi[least])
		}
		ancestor[w], label[w] = parent[w], uint32(w)
	}
	idom := parent // each node's dominator, which is its parent at first
	for w := 1; w < reached; w++ {
		for idom[w] > semi[w] {
			idom[w] = idom[idom[w]]
		}
	}
	sizes := make([]uint64, reached)
	for w := reached - 1; w > 0; w-- {
		sizes[w] += g.Nodes[walk[w]-1].Size
		sizes[idom[w]] += sizes[w]
	}
	g.dominators, g.retained = make([]uint32, len(g.Nodes)), make([]uint64, len(g.Nodes))
	for i := range g.dominators {
		g.dominators[i] = none
	}
	g.order = make([]uint32, 0, reached)
	for w := 1; w < reached; w++ {
		node := walk[w] - 1
		g.order = append(g.order, node)
		g.dominators[node], g.retained[node] = walk[idom[w]], sizes[w]
	}
}

// Retained returns how much memory would become free if the object n were gone, in bytes. ok is false if no root
// reaches the object.
func (g *Graph) Retained(n uint32) (bytes uint64, ok bool) {
	g.dominate()
	return g.retained[n], g.dominators[n] != none
}
