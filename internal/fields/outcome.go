package fields

import (
	"slices"
	"strings"
)

// outcome says what a plan comes to.
func (p *printer) outcome(a Answer) error {
	plan := *a.Plan
	p.add(line{})
	p.request(a.Cluster, plan)
	var others []Planned
	for _, o := range plan.Objects {
		if o.Resource == a.Resource && o.Namespace == a.Namespace && o.Name == a.Name {
			if err := p.object(plan, o, true); err != nil {
				return err
			}
			continue
		}
		others = append(others, o)
	}
	if len(others) > 0 {
		p.say(plain, "The other objects of the add-on:")
	}
	return p.objects(plan, others)
}

// overview is what a plan does to all objects of an add-on.
func (p *printer) overview(a Answer) {
	p.request(a.Cluster, *a.Plan)
	if err := p.objects(*a.Plan, a.Plan.Objects); err != nil {
		p.say(red, "%v", err)
	}
}

func (p *printer) request(cluster string, plan Plan) {
	p.say(bold, "aws eks %s --cluster-name %s --addon-name %s --addon-version %s --resolve-conflicts %s", plan.Request, cluster, plan.Addon, plan.Version, plan.Conflicts)
	verdict, style := "would succeed", green
	if plan.Fails() {
		verdict, style = "would fail, and change nothing", red
	}
	if plan.From != "" && plan.From != plan.Version {
		verdict += " (it is " + plan.From + " now)"
	}
	p.say(style, "%s", verdict)
}

// objects says of each what a plan does to it; what stays as it is in one line.
func (p *printer) objects(plan Plan, all []Planned) error {
	var same []string
	for _, o := range all {
		action, err := plan.Action(o)
		if err != nil {
			return err
		}
		if action == "nothing" && len(o.Kept) == 0 && len(o.Conflicts) == 0 {
			same = append(same, o.Resource+"/"+o.Name)
			continue
		}
		if err := p.object(plan, o, false); err != nil {
			return err
		}
	}
	if len(same) > 0 {
		p.say(dim, "  = %s", strings.Join(same, ", "))
		p.say(dim, "    stay as they are")
	}
	return nil
}

// Action is what a plan does to an object: "create", "change" (values), "adopt" (owners alone), "delete", "nothing", or, with a plan that fails,
// "conflict" or "refuse".
func (p Plan) Action(o Planned) (string, error) {
	switch {
	case o.Refused != "":
		return "refuse", nil
	case len(o.Conflicts) > 0 && p.stops():
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

// said is what an action is called, with its mark and style.
var said = map[string]struct{ mark, text, style string }{
	"refuse":   {"!", "would be refused", red},
	"conflict": {"!", "has conflicts", red},
	"create":   {"+", "would be created", green},
	"delete":   {"-", "would be deleted", red},
	"change":   {"~", "would change", plain},
	"adopt":    {"~", "would get eks as an owner, with the values that it has", plain},
	"nothing":  {"=", "stays as it is", dim},
}

func (p *printer) object(plan Plan, o Planned, whole bool) error {
	action, err := plan.Action(o)
	if err != nil {
		return err
	}
	s := said[action]
	verb := s.text
	if plan.Fails() && action != "refuse" && action != "conflict" {
		verb += ", if nothing stood against it"
	}
	p.say(s.style, "  %s %s/%s %s", s.mark, o.Resource, o.Name, verb)
	if o.Refused != "" {
		p.say(plain, "      %s", strings.ReplaceAll(o.Refused, "\n", " "))
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
		what := map[bool]string{true: "conflicts with %s over", false: "takes from %s"}[plan.stops()]
		if plan.Conflicts == "PRESERVE" && !plan.stops() {
			what = "leaves to %s"
		}
		p.say(plain, "      "+what, m)
		for _, path := range by[m] {
			p.say(plain, "        %s", path)
		}
	}
	if len(o.Kept) > 0 && (whole || len(o.Kept) <= 4) {
		p.say(plain, "      keeps what others set")
		for _, path := range o.Kept {
			if !slices.ContainsFunc(o.Conflicts, func(c Conflict) bool { return c.Path == path }) {
				p.say(plain, "        %s", path)
			}
		}
	}
	return nil
}
