package revision

import "slices"

// searcher finds out whether a text has one of many words, in a time that depends on the text alone: as an automaton
// whose states are the beginnings of words (Aho-Corasick).
type searcher struct {
	next map[edge]int32 // to the beginning that is longer by a byte
	// shorter is the longest other beginning that a state ends with.
	shorter []int32
	// found reports whether a state ends with a word.
	found []bool
}

// edge is a state and the byte that follows. The state 0 is of the empty beginning.
type edge struct {
	state int32
	then  byte
}

func newSearcher(words []string) *searcher {
	s := &searcher{next: map[edge]int32{}, shorter: []int32{0}, found: []bool{false}}
	var edges []edge // by the state that they lead to, which is one more than their index
	for _, word := range words {
		state := int32(0)
		for i := range len(word) {
			e := edge{state, word[i]}
			to, ok := s.next[e]
			if !ok {
				to = int32(len(s.found))
				s.next[e] = to
				edges = append(edges, e)
				s.shorter, s.found = append(s.shorter, 0), append(s.found, false)
			}
			state = to
		}
		s.found[state] = true
	}
	depth := make([]int, len(s.found))
	byDepth := make([]int32, 0, len(edges))
	for i, e := range edges {
		depth[i+1] = depth[e.state] + 1
		byDepth = append(byDepth, int32(i+1))
	}
	slices.SortStableFunc(byDepth, func(a, b int32) int { return depth[a] - depth[b] })
	for _, state := range byDepth {
		e := edges[state-1]
		if e.state != 0 {
			s.shorter[state] = s.follow(s.shorter[e.state], e.then)
		}
		s.found[state] = s.found[state] || s.found[s.shorter[state]]
	}
	return s
}

// follow returns the state after one more byte.
func (s *searcher) follow(state int32, b byte) int32 {
	for {
		if to, ok := s.next[edge{state, b}]; ok {
			return to
		}
		if state == 0 {
			return 0
		}
		state = s.shorter[state]
	}
}

// matches reports whether a text has one of the words.
func (s *searcher) matches(text string) bool {
	state := int32(0)
	for i := range len(text) {
		if state = s.follow(state, text[i]); s.found[state] {
			return true
		}
	}
	return false
}
