package audit

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Style is the style in which steps are printed.
type Style struct {
	Width int  // of the terminal in columns; 0 doesn't wrap
	Color bool // with ECMA-48 escape sequences
	Wide  bool // everything that is known, nothing shortened
	Many  bool // several objects: each step names its own
	Kinds bool // of several types
}

// Printer prints steps for people.
type Printer struct {
	Style
	// Live is set when steps come as they happen. What was printed can't be folded then; repetitions
	// of it are counted, and told with what comes next.
	Live bool

	page  page
	day   string
	was   bool // the last thing printed was quiet
	any   bool
	loud  string           // likeness of the last step that was not quiet
	bare  map[string]bool  // resources of which the title says that the log has no content
	quiet map[string]*Fold // what was printed since, and how often it came again
	order []string
}

// NewPrinter prints on w.
func NewPrinter(w io.Writer, s Style) *Printer {
	return &Printer{Style: s, page: page{w: w, width: s.Width, color: s.Color}, quiet: map[string]*Fold{}}
}

// marginWidth returns the column in which the lines about a step begin: below its status.
func (p *Printer) marginWidth() int {
	if p.Wide {
		return 14
	}
	return 10
}

// Title prints the subject of the timeline.
func (p *Printer) Title(targets []Target, cluster string, steps []*Step) error {
	var what []string
	for _, t := range targets {
		what = append(what, t.Where())
	}
	spans := []span{{style: bold, text: strings.Join(what, ", ")}, {style: plainText, text: " of cluster " + cluster}}
	if n := len(steps); n > 0 {
		spans = append(spans, span{style: dim, text: ": " + formatCount(n, "step")})
		if took := steps[n-1].Time.Sub(steps[0].Time); took >= time.Second {
			spans = append(spans, span{style: dim, text: " in " + took.Round(time.Second).String()})
		}
	}
	p.page.writeSpans(0, 2, spans...)
	p.bare = map[string]bool{}
	for _, s := range steps {
		if s.isMetadataOnly() {
			p.bare[s.Object.Resource] = true
		}
	}
	for _, s := range steps {
		if !s.isMetadataOnly() && !slices.Contains(reads, s.Verb) {
			delete(p.bare, s.Object.Resource)
		}
	}
	for _, r := range sortedKeys(p.bare) {
		p.page.writeSpans(0, 2, span{style: dim, text: "The audit policy keeps " + r +
			" at level Metadata: who and when, but no content."})
	}
	return p.page.err
}

// Print prints steps in order, repetitions folded.
func (p *Printer) Print(steps []*Step) error {
	for _, f := range foldSteps(steps) {
		like := likeness(f.Step)
		switch {
		case f.quiet && p.quiet[like] != nil:
			again := p.quiet[like]
			if again.Count == 0 {
				again.Step = f.Step
			}
			again.Count, again.Stale, again.Last = again.Count+f.Count, again.Stale+f.Stale, f.Last
			continue
		case f.quiet && p.Live:
			p.quiet[like] = &Fold{}
			p.order = append(p.order, like)
		case !f.quiet && p.Live && like == p.loud && !f.isUnique():
			p.printRepetition(f)
			continue
		case !f.quiet:
			p.Rest()
			p.loud = like
		}
		p.printFold(f)
	}
	return p.page.err
}

// Rest prints the repetitions that were counted and not printed yet.
func (p *Printer) Rest() error {
	for _, like := range p.order {
		if f := p.quiet[like]; f.Count > 0 {
			p.quietly(*f)
		}
	}
	p.quiet, p.order = map[string]*Fold{}, nil
	return p.page.err
}

// printRepetition prints a line for a step that repeats the one before it.
func (p *Printer) printRepetition(f Fold) {
	p.page.writeSpans(0, p.marginWidth(), span{style: dim, text: p.formatTime(f.Time)},
		span{style: plainText, text: "  "}, span{style: codeStyle(f.Code), text: statusCode(f.Step)},
		span{style: plainText, text: " "}, span{style: bold, text: f.Action}, span{style: yellow, text: " again"},
		span{style: dim, text: " by " + f.Who.shortName()})
}

// Note prints a remark between steps.
func (p *Printer) Note(text string) error {
	p.page.writeSpans(0, 2, span{style: dim, text: text})
	return p.page.err
}

func (p *Printer) printFold(f Fold) {
	if day := f.Time.Format("Monday 2 January 2006"); day != p.day {
		p.page.writeBlankLine()
		p.page.writeSpans(0, 2, span{style: bold, text: day}, span{style: dim, text: " (UTC)"})
		p.day = day
		p.was = false
	} else if p.any && !p.was && !f.quiet {
		p.page.writeBlankLine()
	} else if p.was && !f.quiet {
		p.page.writeBlankLine()
	}
	p.any, p.was = true, f.quiet
	if f.quiet && !p.Wide {
		p.quietly(f)
		return
	}
	p.headline(f)
	p.printOrigin(f)
	for _, o := range f.Also {
		p.page.writeSpans(p.marginWidth(), p.marginWidth()+2, span{style: red, text: "- "},
			span{style: plainText, text: p.objectName(o)})
	}
	for _, s := range f.Summary {
		p.page.writeSpans(p.marginWidth(), p.marginWidth()+2, span{style: green, text: "+ "},
			span{style: plainText, text: s})
	}
	if f.Requested && len(f.Changes) > 0 {
		p.page.writeSpans(p.marginWidth(), p.marginWidth(),
			span{style: dim, text: "asked for, from a version that is not in the log:"})
	}
	var own, unseen []Change
	for _, c := range f.changes() {
		if c.By == "" {
			own = append(own, c)
		} else {
			unseen = append(unseen, c)
		}
	}
	p.changes(p.marginWidth(), own)
	p.ownership(f.Ownership)
	p.webhooks(f.Webhooks)
	if len(unseen) > 0 {
		p.page.writeSpans(p.marginWidth(), p.marginWidth()+2,
			span{style: yellow, text: "? changed before this, in a request that is not in the log:"})
		p.changes(p.marginWidth()+2, unseen)
	}
	if f.Refusal != nil {
		p.refusal(f.Step)
	}
	notes := f.Notes
	if f.isMetadataOnly() && !p.bare[f.Object.Resource] {
		notes = append(slices.Clone(notes), "the audit policy keeps this at level Metadata: no content")
	}
	for _, n := range notes {
		p.page.writeSpans(p.marginWidth(), p.marginWidth()+2, span{style: dim, text: "· " + n})
	}
	if p.Wide {
		p.printDetails(f.Step)
	}
}

func (p *Printer) formatTime(t time.Time) string {
	if p.Wide {
		return t.Format("15:04:05.000")
	}
	return t.Format("15:04:05")
}

func codeStyle(code int32) style {
	switch {
	case code >= 400:
		return boldRed
	case code == 0:
		return yellow
	}
	return green
}

func statusCode(s *Step) string {
	if s.Code == 0 || s.Code == 101 && s.Open {
		return "..."
	}
	return strconv.Itoa(int(s.Code))
}

func (p *Printer) headline(f Fold) {
	spans := []span{{style: dim, text: p.formatTime(f.Time)}, {style: plainText, text: "  "},
		{style: codeStyle(f.Code), text: statusCode(f.Step)}, {style: plainText, text: " "},
		{style: bold, text: f.Action}}
	if pad := 6 - len(f.Action); pad > 0 {
		spans = append(spans, span{style: plainText, text: strings.Repeat(" ", pad)})
	}
	spans = append(spans, span{style: plainText, text: " "})
	if p.Many || f.Object.Resource == "namespaces" {
		spans = append(spans, span{style: bold, text: p.objectName(f.Object)})
		if n := len(f.Also); n > 0 {
			spans = append(spans, span{style: bold, text: fmt.Sprintf(" and %d more", n), whole: true})
		}
	} else {
		spans = append(spans, p.userSpans(f.Who)...)
	}
	if f.DryRun {
		spans = append(spans, span{style: yellow, text: "  dry run", whole: true})
	}
	if f.Count > 1 {
		spans = append(spans, span{style: yellow, text: fmt.Sprintf("  %d times until %s", f.Count,
			p.formatTime(f.Until())), whole: true})
	}
	p.page.writeSpans(0, p.marginWidth(), spans...)
	if p.Many || f.Object.Resource == "namespaces" {
		p.page.writeSpans(p.marginWidth(), p.marginWidth()+2, append([]span{{style: plainText, text: "by "}},
			p.userSpans(f.Who)...)...)
	}
}

func (p *Printer) objectName(o Object) string {
	if !p.Kinds && o.Resource != "namespaces" {
		return o.qualifiedName()
	}
	kind := strings.ToLower(o.Kind)
	if kind == "" {
		kind = o.Resource
	}
	return kind + " " + o.qualifiedName()
}

// userSpans names the user, with what is behind the name.
func (p *Printer) userSpans(w Who) []span {
	spans := []span{{style: cyan, text: w.Username}}
	var behind []string
	if w.EKS {
		behind = append(behind, "Amazon EKS")
	}
	if w.ARN != "" && w.ARN != w.Username {
		behind = append(behind, w.ARN)
	}
	if w.SessionName != "" && !strings.HasSuffix(w.ARN, "/"+w.SessionName) {
		behind = append(behind, "session "+w.SessionName)
	}
	if w.Pod != "" {
		behind = append(behind, "pod "+w.Pod)
	}
	for _, g := range w.Groups {
		if g != "system:nodes" && g != "system:bootstrappers" {
			behind = append(behind, "in "+g)
		}
	}
	if len(behind) > 0 {
		spans = append(spans, span{style: dim, text: " (" + strings.Join(behind, ", ") + ")", whole: true})
	}
	if w.As != nil {
		spans = append(spans, span{style: yellow, text: " as "})
		spans = append(spans, p.userSpans(*w.As)...)
	}
	return spans
}

// printOrigin prints the program, the addresses, and the field manager of a step.
func (p *Printer) printOrigin(f Fold) {
	text := f.Client.Name
	if text == "vpcLambda" {
		text += " (Amazon EKS)"
	}
	if len(f.Client.IPs) > 0 {
		text += " from " + strings.Join(f.Client.IPs, " via ")
	}
	if f.FieldManager != "" && f.Object.Subresource != "eviction" && f.Object.Subresource != "binding" &&
		f.Object.Subresource != "token" {
		text += ", manager " + f.FieldManager
		if f.Force {
			text += ", by force"
		}
	}
	p.page.writeSpans(p.marginWidth(), p.marginWidth()+2, span{style: dim, text: text})
}

// quietly prints a line for what a controller writes all the time.
func (p *Printer) quietly(f Fold) {
	text := f.Who.shortName()
	if p.Many {
		text = p.objectName(f.Object) + " by " + text
	}
	if f.Count > 1 {
		text += ", " + formatCount(f.Count, "time")
		if until := p.formatTime(f.Until()); until != p.formatTime(f.Time) {
			text += " until " + until
		}
	}
	switch {
	case f.Stale == f.Count:
		text += " (modified meanwhile, tried again)"
	case f.Stale > 0:
		text += fmt.Sprintf(" (%d of them 409, tried again)", f.Stale)
	}
	c := statusCode(f.Step)
	if f.Stale < f.Count {
		c = "200"
	}
	p.page.writeSpans(0, p.marginWidth(), span{style: dim, text: p.formatTime(f.Time) + "  " + c + " " + f.Action +
		" " + text})
}

func (p *Printer) ownership(all []Ownership) {
	say := func(manager, what string, paths []string) {
		if len(paths) == 0 {
			return
		}
		n := 3
		if p.Wide {
			n = len(paths)
		}
		var shown []string
		for _, path := range paths[:min(n, len(paths))] {
			shown = append(shown, display(path))
		}
		text := strings.Join(shown, ", ")
		if more := len(paths) - len(shown); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		p.page.writeSpans(p.marginWidth(), p.marginWidth()+4, span{style: yellow, text: "= "},
			span{style: plainText, text: manager}, span{style: dim, text: " " + what + ": " + text})
	}
	for _, o := range all {
		say(o.Manager, "now owns, unchanged", o.Gained)
		say(o.Manager, "no longer owns", o.Lost)
	}
}

func (p *Printer) webhooks(all []Webhook) {
	for _, w := range all {
		name := w.Name
		if w.Configuration != "" && w.Configuration != w.Name {
			name = w.Configuration + "/" + w.Name
		}
		switch {
		case w.FailedOpen:
			p.page.writeSpans(p.marginWidth(), p.marginWidth()+2, span{style: yellow, text: "webhook "},
				span{style: plainText, text: name},
				span{style: yellow, text: " failed and was ignored (failurePolicy: Ignore)"})
		case w.Mutated:
			p.page.writeSpans(p.marginWidth(), p.marginWidth()+2, span{style: yellow, text: "webhook "},
				span{style: plainText, text: name}, span{style: dim, text: " patched"})
			p.changes(p.marginWidth()+2, w.Patch)
		case p.Wide:
			p.page.writeSpans(p.marginWidth(), p.marginWidth()+2, span{style: dim, text: "webhook " + name +
				" changed nothing"})
		}
	}
}

func (p *Printer) refusal(s *Step) {
	r := s.Refusal
	say := func(spans ...span) {
		p.page.writeSpans(p.marginWidth(), p.marginWidth()+2, append([]span{{style: boldRed, text: "! "}}, spans...)...)
	}
	switch {
	case len(r.Conflicts) > 0:
		p.conflicts(s)
	case r.Stale != nil:
		switch {
		case r.Stale.Had == "":
			say(span{style: plainText, text: "the object had been modified since it was read"})
		case len(r.Stale.By) > 0:
			by := r.Stale.By[len(r.Stale.By)-1]
			say(span{style: plainText, text: fmt.Sprintf(
				"was made from version %s, but %s had written since (%s at %s)", r.Stale.Had, by.Who, by.Action,
				formatHour(by.Time))})
		default:
			say(span{style: plainText, text: "was made from version " + r.Stale.Had + ", which is not the newest"})
		}
		p.page.writeSpans(p.marginWidth()+2, p.marginWidth()+2,
			span{style: dim, text: "read the object again and repeat the change"})
	case r.Kind == "denied" && r.By != "":
		say(span{style: plainText, text: "denied by "}, span{style: bold, text: r.By},
			span{style: plainText, text: ": " + strings.TrimSpace(r.Message)})
	case r.Kind == "forbidden":
		why := r.Message
		if _, rest, ok := strings.Cut(why, "\" cannot "); ok {
			why = "may not " + rest
		}
		say(span{style: plainText, text: why})
		if s.Authorization != "" {
			p.page.writeSpans(p.marginWidth()+2, p.marginWidth()+4, span{style: dim, text: "the authorizer says: " +
				s.Authorization})
		}
	default:
		for _, c := range r.Causes {
			say(span{style: plainText, text: c.Field + ": " + c.Message})
		}
		if r.Message != "" {
			say(span{style: plainText, text: r.Message})
		}
	}
}

func formatHour(rfc3339 string) string {
	t, err := time.Parse(time.RFC3339, rfc3339)
	if err != nil {
		return rfc3339
	}
	return t.Format("15:04:05")
}

// conflicts spells out whose the fields are, what the apply wanted, and what would settle it.
func (p *Printer) conflicts(s *Step) {
	for _, c := range s.Refusal.Conflicts {
		spans := []span{{style: boldRed, text: "! "}, {style: plainText, text: "conflict with "},
			{style: bold, text: c.Owner}}
		if c.Since != nil {
			spans = append(spans, span{style: dim, text: fmt.Sprintf(" (%s, %s at %s)", c.Since.Who, c.Since.Action,
				formatHour(c.Since.Time)), whole: true})
		}
		p.page.writeSpans(p.marginWidth(), p.marginWidth()+4, append(spans, span{style: plainText, text: " over"})...)
		p.page.writeSpans(p.marginWidth()+2, p.marginWidth()+2, span{style: plainText, text: c.display()})
		if c.Is != nil || c.Wanted != nil {
			p.page.writeSpans(p.marginWidth()+2, p.marginWidth()+4, span{style: plainText, text: "is "},
				span{style: red, text: formatValue(c.Is)},
				span{style: plainText, text: ", wanted "}, span{style: green, text: formatValue(c.Wanted)})
		}
	}
	them, fields := "it", "field"
	if len(s.Refusal.Conflicts) > 1 {
		them, fields = "them", "fields"
	}
	text := fmt.Sprintf(
		"nothing was applied: --force-conflicts would take %s for %s; without the %s in its manifest, %s would leave "+
			"%s alone", them, s.FieldManager, fields, s.FieldManager, them)
	if s.Who.EKS {
		text = fmt.Sprintf(
			"nothing was applied: aws eks update-addon --resolve-conflicts OVERWRITE would take %s for %s, PRESERVE "+
				"would leave %s alone", them, s.FieldManager, them)
	}
	p.page.writeSpans(p.marginWidth()+2, p.marginWidth()+2, span{style: dim, text: text})
}

// printDetails prints what else is known.
func (p *Printer) printDetails(s *Step) {
	row := func(name, value string) {
		if value != "" {
			p.page.writeSpans(p.marginWidth(), p.marginWidth()+2, span{style: dim, text: fmt.Sprintf("%-8s", name)},
				span{style: dim, text: value})
		}
	}
	row("request", s.Verb+" "+s.URI)
	row("agent", s.Client.UserAgent)
	row("role", s.Who.CanonicalARN)
	row("key", s.Who.AccessKeyID)
	row("allowed", s.Authorization)
	row("audit", s.AuditID+" at level "+s.Level)
}

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
