package work

import (
	"slices"
	"strings"
)

// These constants decide which parts of paths are values, such as a name in "/users/alice".
const (
	// maxPositionWords limits how many different words at one position of a path can be parts of routes. If there are
	// more words, and most of them occur only once or twice, they count as values.
	maxPositionWords = 32
	// usualVisits applies if there are more than maxPositionWords words at a position. If each word occurs usualVisits
	// times on average, the words still count as parts of routes.
	usualVisits = 4
	// maxRoutesAt limits how many words at one position can count as parts of routes, however often they occur.
	maxRoutesAt = 128
	// oftenVisits and oftenShare define a frequent word. A frequent word stays a part of a route when the other words
	// at its position become values. It occurs at least oftenVisits times, and in at least one of oftenShare requests
	// at its position. So a visitor who tries a thousand paths does not remove the words of real routes.
	oftenVisits, oftenShare = 16, 64
	// maxPathNodes limits how many words are remembered, for all positions together. They take about 1 MB.
	maxPathNodes = 4096
)

// paths learns which parts of paths are values although they look like words: names of people, products, random
// letters. After the same beginning, the paths of routes have few different words at the next position. If there are
// more than maxPositionWords different words, and most of them occur once or twice, they are values. From then on,
// ":id" replaces them, and the paths that follow them are merged. The order of requests matters only until enough
// requests were seen.
type paths struct {
	root  pathNode
	nodes int
	// requests counts the requests whose paths were learnt.
	requests uint64
}

// pathNode is a node in a tree of paths. It stands for all paths with the same beginning, and has the words that can
// follow this beginning.
type pathNode struct {
	words map[string]*pathNode
	// id is the node that follows if the next part of the path is a value. It is nil if no value has occurred here.
	id *pathNode
	// visits counts the requests whose path has this beginning. wordVisits counts the requests among them whose next
	// part is one of words.
	visits, wordVisits uint64
	// seen is the number of the last request whose path has this beginning.
	seen uint64
	// values is true if every next part of the path is a value, except the parts in words.
	values bool
}

func parts(pattern string, f func(part string)) {
	for more := true; more; {
		var part string
		part, pattern, more = strings.Cut(pattern, "/")
		f(part)
	}
}

func fixed(part string) bool { return part == ID || part == "…" }

// fold returns the pattern with ":id" in place of each word that is known to be a value.
func (p *paths) fold(pattern string) string {
	n, changed := &p.root, false
	parts(pattern, func(part string) {
		var value bool
		n, value = n.next(part)
		changed = changed || value
	})
	if !changed {
		return pattern
	}
	out := make([]string, 0, maxSegments+2)
	n = &p.root
	parts(pattern, func(part string) {
		var value bool
		if n, value = n.next(part); value {
			part = ID
		}
		out = append(out, part)
	})
	return strings.Join(out, "/")
}

// next returns the node for the next part of a path, or nil if there is none. value is true if the part is a value
// although it looks like a word.
func (n *pathNode) next(part string) (to *pathNode, value bool) {
	switch {
	case n == nil || part == "":
		return n, false
	case fixed(part):
		return n.id, false
	}
	if to := n.words[part]; to != nil || !n.values || tokenVerbs[part] {
		return to, false
	}
	return n.id, true
}

func (p *paths) learn(pattern string) {
	p.requests++
	n := &p.root
	p.visit(n)
	parts(pattern, func(part string) {
		if part == "" {
			return
		}
		n = p.follow(n, part)
		p.visit(n)
	})
}

func (p *paths) visit(n *pathNode) {
	n.visits++
	n.seen = p.requests
}

// follow returns the node for the next part of a pattern. If there is no such node, it adds one.
func (p *paths) follow(n *pathNode, part string) *pathNode {
	if !fixed(part) {
		to := n.words[part]
		if to == nil && (!n.values || tokenVerbs[part]) {
			p.makeRoom()
			if n.words == nil {
				n.words = make(map[string]*pathNode)
			}
			to = &pathNode{seen: p.requests}
			n.words[part] = to
			p.nodes++
		}
		if to != nil {
			n.wordVisits++
			if !n.tooMany() {
				return to
			}
			n.turn()
			p.nodes = p.root.count() - 1
			if to := n.words[part]; to != nil {
				return to
			}
		}
	}
	if n.id == nil {
		p.makeRoom()
		n.id = &pathNode{seen: p.requests}
		p.nodes++
	}
	return n.id
}

// tooMany reports whether a node has so many different words that they must be values.
func (n *pathNode) tooMany() bool {
	many := len(n.words)
	return !n.values && (many > maxPositionWords && n.wordVisits < usualVisits*uint64(many) || many > maxRoutesAt)
}

// turn marks the words of a node as values, except frequent words and tokenVerbs. It merges the paths that follow these
// words.
func (n *pathNode) turn() {
	n.values = true
	if n.id == nil {
		n.id = &pathNode{}
	}
	all := n.wordVisits
	for word, to := range n.words {
		if !tokenVerbs[word] && (to.visits < oftenVisits || to.visits*oftenShare < all) {
			n.id.merge(to)
			n.wordVisits -= min(to.visits, n.wordVisits)
			delete(n.words, word)
		}
	}
	n.id.settle()
}

// merge adds the words of the node o to the node n. The number of words can then exceed the limits (see settle).
func (n *pathNode) merge(o *pathNode) {
	n.visits, n.wordVisits, n.seen, n.values = n.visits+o.visits, n.wordVisits+o.wordVisits, max(n.seen, o.seen), n.values || o.values
	if o.id != nil {
		if n.id == nil {
			n.id = &pathNode{}
		}
		n.id.merge(o.id)
	}
	for word, to := range o.words {
		if n.words == nil {
			n.words = make(map[string]*pathNode)
		}
		if n.words[word] == nil {
			n.words[word] = &pathNode{}
		}
		n.words[word].merge(to)
	}
}

// settle marks words as values at each node that has too many words after a merge.
func (n *pathNode) settle() {
	if n.values || n.tooMany() {
		n.turn() // the method turn also settles n.id
	} else if n.id != nil {
		n.id.settle()
	}
	for _, to := range n.words {
		to.settle()
	}
}

func (n *pathNode) each(f func(*pathNode)) {
	f(n)
	if n.id != nil {
		n.id.each(f)
	}
	for _, to := range n.words {
		to.each(f)
	}
}

func (n *pathNode) count() (many int) {
	n.each(func(*pathNode) { many++ })
	return many
}

// makeRoom drops half of the nodes if there are too many. It drops the nodes that no request has visited for the
// longest time.
func (p *paths) makeRoom() {
	if p.nodes < maxPathNodes {
		return
	}
	seen := make([]uint64, 0, p.nodes+1)
	p.root.each(func(n *pathNode) { seen = append(seen, n.seen) })
	slices.Sort(seen)
	p.root.forget(min(seen[len(seen)/2], p.requests-1))
	p.nodes = p.root.count() - 1
}

// forget drops the nodes below n that were last visited by the request with the number since, or by an earlier request.
func (n *pathNode) forget(since uint64) {
	if n.id != nil {
		if n.id.forget(since); n.id.seen <= since {
			n.id = nil
		}
	}
	n.wordVisits = 0
	for word, to := range n.words {
		if to.seen <= since {
			delete(n.words, word)
			continue
		}
		to.forget(since)
		n.wordVisits += to.visits
	}
}
