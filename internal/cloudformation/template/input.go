package template

import (
	"context"
	"errors"
	"strings"
)

// bindParameters gives each parameter its value and checks it.
func (b *Bound) bindParameters(ctx context.Context) error {
	t := b.template
	var unknown, missing []string
	for name := range b.inputs.Parameters {
		if t.parameters[name] == nil {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return errorf("Parameters: %s do not exist in the template", inBrackets(unknown))
	}
	b.parameters = make(map[string]boundParameter, len(t.parameters))
	for name, p := range t.parameters {
		switch input, given := b.inputs.Parameters[name]; {
		case given && !input.UsePrevious:
			b.parameters[name] = boundParameter{text: input.Value}
		case given && input.Previous != nil:
			b.parameters[name] = boundParameter{text: *input.Previous}
		case p.byDefault != nil:
			b.parameters[name] = boundParameter{text: *p.byDefault}
		default:
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return errorf("Parameters: %s must have values", inBrackets(missing))
	}
	m, references := &matcher{}, 0
	for _, name := range sortedKeys(t.parameters) {
		p, bound := t.parameters[name], b.parameters[name]
		if err := p.checkValue(bound.text, m); err != nil {
			return err
		}
		text := bound.text
		if kept := b.inputs.Parameters[name].Text; kept != nil {
			text, bound.expanded = *kept, kept
		} else if strings.Contains(text, referenceStart) {
			var err error
			if text, err = b.resolveParameter(ctx, text, &references); err != nil {
				return err
			}
			bound.expanded = &text
		}
		bound.value = p.valueOf(text)
		b.parameters[name] = bound
	}
	if err := b.resolveStored(ctx); err != nil {
		return err
	}
	return b.checkExisting(ctx)
}

// valueOf returns what Ref of the parameter returns.
func (p *parameter) valueOf(text string) any {
	if !p.list {
		return text
	}
	list := []any{}
	for _, item := range splitList(text) {
		list = append(list, item)
	}
	return list
}

// resolveStored replaces the names of SSM parameters by their values.
func (b *Bound) resolveStored(ctx context.Context) error {
	var missing, unnamed, unsupported, mismatched []string
	for _, name := range sortedKeys(b.template.parameters) {
		p, bound := b.template.parameters[name], b.parameters[name]
		if !p.stored && p.value != storedName {
			continue
		}
		if kept := b.inputs.Parameters[name].Resolved; kept != nil && p.stored {
			bound.resolved, bound.value = *kept, p.valueOf(*kept)
			b.parameters[name] = bound
			continue
		}
		if b.inputs.Parameter == nil {
			continue
		}
		stored, err := b.inputs.Parameter(ctx, bound.text, false)
		switch {
		case errors.Is(err, ErrNotFound) && !p.stored:
			unnamed = append(unnamed, "parameter value "+bound.text+" for parameter name "+name+" does not exist")
			continue
		case errors.Is(err, ErrNotFound):
			missing = append(missing, bound.text)
			continue
		case err != nil:
			return err
		case !p.stored:
			continue
		case stored.Type == "SecureString":
			unsupported = append(unsupported, bound.text)
			continue
		case p.list != (stored.Type == "StringList"):
			mismatched = append(mismatched, bound.text)
			continue
		case len(stored.Value) > maxParameterSize*2:
			return errorf("Parameter '%s' must be no longer than %d bytes.", name, maxParameterSize*2)
		}
		bound.resolved, bound.value = stored.Value, p.valueOf(stored.Value)
		if p.list {
			bound.resolved = strings.Join(splitList(stored.Value), ",")
		}
		b.parameters[name] = bound
	}
	if len(missing) > 0 {
		return errorf("Unable to fetch parameters [%s] from parameter store for this account.", strings.Join(missing, ","))
	}
	if len(unsupported) > 0 {
		return errorf("Parameters [%s] referenced by template have types not supported by CloudFormation.",
			strings.Join(unsupported, ","))
	}
	if len(mismatched) > 0 {
		return errorf("Types for SSM parameters [%s] defined in CFN template and SSM are incompatible",
			strings.Join(mismatched, ","))
	}
	if len(unnamed) > 0 {
		return errorf("Parameter validation failed: %s", strings.Join(unnamed, ", "))
	}
	return nil
}

// checkExisting checks that the resources exist that parameters of AWS-specific types name.
func (b *Bound) checkExisting(ctx context.Context) error {
	if b.inputs.Exists == nil {
		return nil
	}
	var problems []string
	found := map[string]bool{} // by type and name: each is asked for once
	for _, name := range sortedKeys(b.template.parameters) {
		p := b.template.parameters[name]
		if !strings.HasPrefix(p.value, "AWS::") || p.value == storedName {
			continue
		}
		var ids []string
		for _, id := range b.parameterValues(name) {
			if key := p.value + "/" + id; !found[key] {
				found[key], ids = true, append(ids, id)
			}
		}
		if len(ids) == 0 {
			continue
		}
		err := b.inputs.Exists(ctx, p.value, ids)
		var gone *MissingError
		switch {
		case errors.As(err, &gone):
			problems = append(problems, "parameter value "+gone.ID+" for parameter name "+name+" does not exist")
		case err != nil:
			return err
		}
	}
	if len(problems) > 0 {
		return errorf("Parameter validation failed: %s", strings.Join(problems, ", "))
	}
	return nil
}

// Parameters returns the parameters with their values, by name.
func (b *Bound) Parameters() []BoundParameter {
	all := make([]BoundParameter, 0, len(b.parameters))
	for _, name := range sortedKeys(b.parameters) {
		p := b.parameters[name]
		all = append(all, BoundParameter{Key: name, Value: p.text, ResolvedValue: p.resolved,
			Text: p.expanded, NoEcho: b.template.parameters[name].noEcho})
	}
	return all
}
