package fields

import (
	"slices"
	"strings"
)

// outcome prints the outcome of a plan.
func (p *printer) outcome(a Answer) error {
	plan := *a.Plan
	p.addLine(line{})
	p.request(a.Cluster, plan)
	var others []Planned
	for _, o := range plan.Objects {
		if o.Resource == a.Resource && o.Namespace == a.Namespace && o.Name == a.Name {
			if err := p.printObject(plan, o); err != nil {
				return err
			}
			continue
		}
		others = append(others, o)
	}
	return p.objects(plan, others, "The other objects of the add-on")
}

// overview prints what a plan does to all objects of an add-on.
func (p *printer) overview(a Answer) {
	p.request(a.Cluster, *a.Plan)
	if err := p.objects(*a.Plan, a.Plan.Objects, "The objects of the add-on"); err != nil {
		p.printText(red, "%v", err)
	}
}

func (p *printer) request(cluster string, plan Plan) {
	p.printText(bold, "aws eks %s --cluster-name %s --addon-name %s --addon-version %s --resolve-conflicts %s",
		plan.Request, cluster, plan.Addon, plan.Version, plan.Conflicts)
	verdict, style := "would succeed", green
	if plan.Fails() {
		verdict, style = "would fail, and change nothing", red
	}
	if plan.From != "" && plan.From != plan.Version {
		verdict += " (it is " + plan.From + " now)"
	}
	p.printText(style, "%s", verdict)
}

// objects prints what a plan does to objects: each that blocks it, and the others by their action.
func (p *printer) objects(plan Plan, all []Planned, title string) error {
	by := map[string][]string{}
	for _, o := range all {
		action, err := plan.Action(o)
		if err != nil {
			return err
		}
		if action == "refuse" || action == "conflict" || len(o.Conflicts) > 0 {
			if err := p.printObject(plan, o); err != nil {
				return err
			}
			continue
		}
		by[action] = append(by[action], o.Resource+"/"+o.Name)
	}
	if len(by) == 0 {
		return nil
	}
	if plan.Fails() {
		title += " would, if nothing stood against it"
	} else {
		title += " would"
	}
	p.printText(plain, "%s", title)
	for _, action := range []string{"create", "change", "adopt", "delete", "nothing"} {
		if len(by[action]) > 0 {
			s := actionTexts[action]
			p.printText(s.style, "  %s %s:", s.mark, s.text)
			p.printList(by[action])
		}
	}
	return nil
}

// printList adds names, as many to a line as there is room for.
func (p *printer) printList(all []string) {
	width := p.style.Width
	if width == 0 {
		width = 100
	}
	text := "     "
	for i, name := range all {
		if i < len(all)-1 {
			name += ","
		}
		if len(text) > 5 && len(text)+1+len(name) > width {
			p.printText(plain, "%s", text)
			text = "     "
		}
		text += " " + name
	}
	p.printText(plain, "%s", text)
}

// Action returns what a plan does to an object: "create", "change" (values), "adopt" (owners alone), "delete",
// "nothing", or, with a plan that fails, "conflict" or "refuse".
func (p Plan) Action(o Planned) (string, error) {
	switch {
	case o.Refused != "":
		return "refuse", nil
	case len(o.Conflicts) > 0 && p.isConflictFatal():
		return "conflict", nil
	case o.Live == nil:
		return "create", nil
	case o.Wanted == nil:
		return "delete", nil
	case o.Result == nil:
		return "nothing", nil
	}
	before, err := Read(o.Live)
	if err != nil {
		return "", err
	}
	after, err := Read(o.Result)
	if err != nil {
		return "", err
	}
	switch values, owners := Compare(before, after, false).Changes(); {
	case values > 0:
		return "change", nil
	case owners > 0:
		return "adopt", nil
	}
	return "nothing", nil
}

// actionTexts maps an action to its text after "would", with its mark and style.
var actionTexts = map[string]struct{ mark, text, style string }{
	"refuse":   {"!", "be refused", red},
	"conflict": {"!", "conflict", red},
	"create":   {"+", "be created", green},
	"delete":   {"-", "be deleted", red},
	"change":   {"~", "change", plain},
	"adopt":    {"~", "get eks as an owner, with the values that are there", plain},
	"nothing":  {"=", "stay as they are", dim},
}

// printObject prints what a plan does to one object, and to whose fields.
func (p *printer) printObject(plan Plan, o Planned) error {
	action, err := plan.Action(o)
	if err != nil {
		return err
	}
	s := actionTexts[action]
	verb := "would " + s.text
	switch {
	case action == "nothing":
		verb = "would stay as it is"
	case plan.Fails() && action != "refuse" && action != "conflict":
		verb += ", if nothing stood against it"
	}
	p.printText(s.style, "  %s %s/%s %s", s.mark, o.Resource, o.Name, verb)
	if o.Refused != "" {
		p.printText(plain, "      %s", strings.ReplaceAll(o.Refused, "\n", " "))
	}
	by := map[string][]string{}
	var managers []string
	for _, c := range o.Conflicts {
		if by[c.Manager] == nil {
			managers = append(managers, c.Manager)
		}
		by[c.Manager] = append(by[c.Manager], c.Path)
	}
	for _, m := range managers {
		switch {
		case plan.isConflictFatal():
			p.printText(plain, "      conflicts with %s over", m)
		case plan.Conflicts == "PRESERVE":
			p.printText(plain, "      leaves to %s", m)
		default:
			p.printText(plain, "      takes from %s", m)
		}
		for _, path := range by[m] {
			p.printText(plain, "        %s", path)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(o.Kept), func(path string) bool {
		return slices.ContainsFunc(o.Conflicts, func(c Conflict) bool { return c.Path == path })
	})
	if len(kept) > 0 {
		p.printText(plain, "      leaves to whoever set it")
		for _, path := range kept {
			p.printText(plain, "        %s", path)
		}
	}
	return nil
}
