package policy

import "strings"

// actions is the Action or NotAction of a statement, indexed by service. Matching ignores case.
type actions struct {
	all     bool
	service map[string][]pattern // of the part after the colon, lower case
}

func compileActions(list []string) actions {
	a := actions{service: map[string][]pattern{}}
	for _, action := range list {
		if action == "*" {
			a.all = true
			continue
		}
		service, name, _ := strings.Cut(strings.ToLower(action), ":")
		a.service[service] = append(a.service[service], compilePattern(name, syntax{wildcards: true}))
	}
	return a
}

// matchesAction takes both parts in lower case.
func (a *actions) matchesAction(service, name string, e *evaluation) bool {
	if a.all {
		return true
	}
	patterns := a.service[service]
	for i := range patterns {
		if patterns[i].matches(name, e) {
			return true
		}
	}
	return false
}
