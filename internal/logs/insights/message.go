package insights

import "slices"

// useReferences lets the rows hold references in the place of @message: when it only goes from row to row, unread,
// until columns show it. What reads it before rows are kept reads it from the event.
func (c *planner) useReferences() {
	first := c.plan.segments[0]
	message, ok := first.fieldAt["@message"]
	if !ok {
		return
	}
	at := message // in the segment's rows
	for i, s := range c.plan.segments {
		put := slices.IndexFunc(s.puts, func(p code) bool { return p.field == at })
		if put < 0 || s.sink != nil || i > 0 && s.isFieldRead(at) {
			return
		}
		at = put
	}
	for column, put := range c.plan.puts {
		if put == at {
			c.plan.references = append(c.plan.references, column)
		}
	}
	c.plan.reference = len(first.fields)
	first.fields = append(first.fields, "")
	first.puts[slices.IndexFunc(first.puts, func(p code) bool { return p.field == message })] = fieldCode(
		c.plan.reference)
}

// isFieldRead reports whether the segment does more with a field of its rows than to put it out.
func (s *segment) isFieldRead(field int) bool {
	in := func(c code) bool { return slices.Contains(c.reads, field) }
	return slices.ContainsFunc(s.steps, func(t step) bool { return slices.Contains(t.reads, field) }) ||
		slices.ContainsFunc(s.order, func(k orderKey) bool { return in(k.of) }) ||
		slices.ContainsFunc(s.dedup, in) ||
		slices.ContainsFunc(s.puts, func(p code) bool { return p.field != field && in(p) })
}
