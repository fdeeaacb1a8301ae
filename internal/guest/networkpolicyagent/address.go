package networkpolicyagent

import (
	"net/netip"
	"slices"
)

// span is a range of addresses of one family, with both ends.
type span struct{ first, last netip.Addr }

// parseBlock parses a block ("10.0.0.0/8") or an address.
func parseBlock(text string) (netip.Prefix, bool) {
	if block, err := netip.ParsePrefix(text); err == nil {
		return block.Masked(), true
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address, address.BitLen()), true
}

func spanOf(block netip.Prefix) span {
	last := block.Addr().AsSlice()
	for i := block.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 1 << (7 - i%8)
	}
	end, _ := netip.AddrFromSlice(last)
	return span{block.Addr(), end}
}

// mergeSpans returns the same addresses, in order, without overlaps.
func mergeSpans(all []span) (merged []span) {
	slices.SortFunc(all, func(a, b span) int { return a.first.Compare(b.first) })
	for _, s := range all {
		n := len(merged)
		if n == 0 || merged[n-1].last.Less(s.first) && merged[n-1].last.Next() != s.first {
			merged = append(merged, s)
			continue
		}
		if merged[n-1].last.Less(s.last) {
			merged[n-1].last = s.last
		}
	}
	return merged
}

// subtract returns what is left of a span without others.
func subtract(from span, without []span) (left []span) {
	at := from.first
	for _, w := range mergeSpans(without) {
		if w.last.Less(at) {
			continue
		}
		if from.last.Less(w.first) {
			break
		}
		if at.Less(w.first) {
			left = append(left, span{at, w.first.Prev()})
		}
		if at = w.last.Next(); !at.IsValid() || from.last.Less(at) {
			return left
		}
	}
	return append(left, span{at, from.last})
}

// isAll reports whether spans are all addresses of their family.
func isAll(spans []span) bool {
	return len(spans) == 1 && spans[0].first.IsUnspecified() && !spans[0].last.Next().IsValid()
}
