package audit

import (
	"slices"
	"strings"
	"time"
)

// Fold is one step, or several that are the same but for their time and values: a controller's
// heartbeat, a client that tries again and again.
type Fold struct {
	*Step // the first
	Last  *Step
	Count int
	Stale int // of quiet ones: how many were refused because the object had been modified
	// Also are the other objects that the same request deleted.
	Also []Object
}

// Until returns when the last of several was received.
func (f Fold) Until() time.Time { return f.Last.Time }

// likeness returns equal for steps that fold into one.
func likeness(s *Step) string {
	parts := []string{s.Object.objectKey(), s.Object.Subresource, s.Object.UID, s.Action, s.Who.Username,
		s.Client.UserAgent, s.FieldManager}
	if s.Who.As != nil {
		parts = append(parts, "as "+s.Who.As.Username)
	}
	if s.quiet {
		return strings.Join(parts, "\x00")
	}
	for _, c := range s.Changes {
		parts = append(parts, c.Op, c.Path, strings.Join(c.Owners, ","), strings.Join(c.Lost, ","), c.By)
	}
	for _, o := range s.Ownership {
		parts = append(parts, o.Manager, strings.Join(o.Gained, ","), strings.Join(o.Lost, ","))
	}
	if s.Refusal != nil {
		parts = append(parts, s.Refusal.Kind, s.Refusal.Message, s.Refusal.By)
		for _, c := range s.Refusal.Conflicts {
			parts = append(parts, c.Path, c.Owner)
		}
	}
	return strings.Join(append(parts, s.Notes...), "\x00")
}

// foldSteps puts repeated steps together. A repetition counts also when nothing but quiet steps lie between;
// quiet ones are gathered by who made them until something happens.
func foldSteps(steps []*Step) []Fold {
	var all []Fold
	loud := -1                // the last step that says something
	quiet := map[string]int{} // after it, by likeness
	for _, s := range steps {
		like := likeness(s)
		if s.quiet {
			i, ok := quiet[like]
			if !ok {
				i = len(all)
				quiet[like] = i
				all = append(all, Fold{Step: s})
			}
			all[i].addStep(s)
			continue
		}
		if loud >= 0 && s.Verb == "deletecollection" && all[loud].AuditID == s.AuditID {
			all[loud].Also = append(all[loud].Also, s.Object)
			continue
		}
		if loud >= 0 && !s.isUnique() && likeness(all[loud].Last) == like {
			all[loud].addStep(s)
			continue
		}
		loud = len(all)
		clear(quiet)
		all = append(all, Fold{Step: s})
		all[loud].addStep(s)
	}
	return all
}

// isUnique reports whether a step is worth telling each time: creations and deletions of an object,
// commands in it, and what a person did if the log doesn't say what it was.
func (s *Step) isUnique() bool {
	if s.Refused() {
		return false
	}
	return len(s.Summary) > 0 || slices.Contains([]string{"create", "delete", "exec", "attach", "port-forward"},
		s.Action) ||
		s.isMetadataOnly() && !s.Who.machinery()
}

func (f *Fold) addStep(s *Step) {
	f.Last = s
	f.Count++
	if s.Refusal != nil && s.Refusal.Kind == "stale" {
		f.Stale++
	}
}

// changes returns the changes of the first, each with the value that the last left.
func (f Fold) changes() []Change {
	if f.Count == 1 {
		return f.Changes
	}
	all := slices.Clone(f.Changes)
	for i := range all {
		all[i].To = f.Last.Changes[i].To
	}
	return all
}
