package image

// pending counts what fetches have reserved of something, by holder, until they end. No holder has more than is left
// for others, so that a late one gets a share, however many have taken theirs.
type pending struct {
	total cacheSize
	by    map[string]cacheSize
}

// leavesShare reports whether a holder leaves others as much as it has once it has taken need of the limit as well.
func (p *pending) leavesShare(holder string, need, limit cacheSize) bool {
	return p.by[holder].add(p.total).add(need).add(need).fits(limit)
}

func (p *pending) add(holder string, need cacheSize) {
	if p.by == nil {
		p.by = make(map[string]cacheSize)
	}
	p.total, p.by[holder] = p.total.add(need), p.by[holder].add(need)
}

func (p *pending) sub(holder string, had cacheSize) {
	if had == (cacheSize{}) {
		return
	}
	p.total, p.by[holder] = p.total.sub(had), p.by[holder].sub(had)
	if p.by[holder] == (cacheSize{}) {
		delete(p.by, holder)
	}
}
