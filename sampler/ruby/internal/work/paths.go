package work

import (
	"slices"
	"strings"
)

// Limits for learning which parts of paths are values.
const (
	// maxPositionWords limits the different words at one position of a path. If there are more, and most come once or
	// twice, they count as values.
	maxPositionWords = 32
	// usualVisits is how often the words at a position must come on average, so that more than maxPositionWords words
	// still count as parts of routes.
	usualVisits = 4
	// maxRoutesAt limits the words at one position that count as parts of routes, however often they come.
	maxRoutesAt = 128
	// oftenVisits and oftenShare define a frequent word, which remains a word when the others become values. It comes
	// at least oftenVisits times, and in at least one of oftenShare requests at its position. So a visitor who tries a
	// thousand paths does not remove the names from the routes.
	oftenVisits, oftenShare = 16, 64
	// maxPathNodes limits the remembered words of all positions together. They take about 1 MB.
	maxPathNodes = 4096
)

// paths learns which parts of paths are values although they look like words: names of people, products, random
// letters. A route has few words at a position, after the same beginning. If there are more than maxPositionWords, and
// most are met once or twice, they are values. From then on ":id" replaces them, and what follows them is merged. The
// order of requests matters only until enough of them were seen.
type paths struct {
	root  pathNode
	nodes int
	// requests counts the requests that were learnt from.
	requests uint64
}

// pathNode is the beginning of paths, with the words that follow it.
type pathNode struct {
	words map[string]*pathNode
	// id is the continuation after a value. It is nil if no value has been met.
	id *pathNode
	// visits counts the requests whose path passed this node. wordVisits counts the requests among them that continued
	// with one of words.
	visits, wordVisits uint64
	// seen is the number of the last request that passed this node.
	seen uint64
	// values is true if all parts that follow are values, except those in words.
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

// fold returns a pattern with ":id" in place of the words that are values.
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

// next returns the node for the next part of a path, or nil. value is true if the part is a value although it looks
// like a word.
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

// follow returns the node for the next part of a pattern, and makes it if needed.
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

// tooMany reports whether the words that follow the node are so many that they must be values.
func (n *pathNode) tooMany() bool {
	many := len(n.words)
	return !n.values && (many > maxPositionWords && n.wordVisits < usualVisits*uint64(many) || many > maxRoutesAt)
}

// turn makes the words that follow the node values, except frequent words and tokenVerbs.
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

// merge adds the words of another node, without a limit on their number.
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

// settle turns words into values where a merge has brought too many words.
func (n *pathNode) settle() {
	if n.values || n.tooMany() {
		n.turn() // turn also settles n.id
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

// makeRoom drops half of the nodes if there are too many. It drops the ones that no request has visited for the
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

// forget drops the nodes below n whose last visit was by the request with the number since, or an earlier one.
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
