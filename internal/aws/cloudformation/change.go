package cloudformation

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/cloudformation/plan"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/cloudformation/template"
)

// showChanges returns the changes of an update as change sets have them.
func showChanges(p *prepared, imports map[string]map[string]string) []types.Change {
	secrets := revision.SecretsOf(p.row, p.previous)
	changed := map[string]bool{}
	for _, c := range p.changes {
		changed[c.LogicalID] = true
	}
	parameters := map[string]bool{}
	for _, parameter := range p.row.Parameters {
		parameters[parameter.Key] = true
	}
	isChanged := func(name string) (parameter, resource bool) { return parameters[name], changed[name] }
	list := []types.Change{}
	for _, c := range p.changes {
		shown := &types.ResourceChange{Action: types.ChangeAction(c.Action), LogicalResourceId: aws.String(c.LogicalID),
			Scope: []types.ResourceAttribute{}, Details: []types.ResourceChangeDetail{}}
		switch c.Action {
		case plan.Add:
			shown.ResourceType = aws.String(c.New.Type)
			shown.AfterContext = contextOf(secrets, c.New)
			if imports[c.LogicalID] != nil {
				shown.Action = types.ChangeActionImport
			}
		case plan.Remove:
			shown.ResourceType, shown.PhysicalResourceId = aws.String(c.Old.Type), aws.String(shownID(c.Old))
			shown.PolicyAction = types.PolicyActionDelete
			shown.BeforeContext = contextOf(secrets, c.Old)
		case plan.Modify:
			showModification(shown, c, p.bound.Resource(c.LogicalID), isChanged, secrets)
		}
		list = append(list, types.Change{Type: types.ChangeTypeResource, ResourceChange: shown})
	}
	return list
}

func shownID(r plan.Resource) string {
	if r.Ref != "" {
		return r.Ref
	}
	return r.PhysicalID
}

func contextOf(secrets revision.Secrets, r plan.Resource) *string {
	return aws.String(jsonText(map[string]any{"Properties": secrets.Value(r.Properties)}))
}

func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

func showModification(shown *types.ResourceChange, c plan.Change, r template.Resource,
	isChanged func(string) (parameter, resource bool), secrets revision.Secrets) {
	shown.ResourceType, shown.PhysicalResourceId = aws.String(c.New.Type), aws.String(shownID(c.Old))
	shown.Replacement = types.Replacement(c.Replacement)
	shown.BeforeContext, shown.AfterContext = contextOf(secrets, c.Old), contextOf(secrets, c.New)
	scope := map[types.ResourceAttribute]bool{}
	properties, _ := r.Properties.(map[string]any)
	for _, property := range c.Properties {
		name := property.Name
		attribute := types.ResourceAttributeProperties
		if name == "Tags" {
			attribute = types.ResourceAttributeTags
		}
		scope[attribute] = true
		cause := plan.CauseOf(properties[name], isChanged)
		detail := types.ResourceChangeDetail{
			ChangeSource: types.ChangeSource(cause.Source), CausingEntity: optional(cause.Entity),
			Evaluation: types.EvaluationTypeStatic,
			Target: &types.ResourceTargetDefinition{Attribute: attribute, Name: aws.String(name),
				RequiresRecreation: types.RequiresRecreation(property.RequiresRecreation),
				Path:               aws.String("/Properties/" + name),
				BeforeValue:        valueText(secrets.Value(c.Old.Properties[name])),
				AfterValue:         valueText(secrets.Value(c.New.Properties[name])),
			},
		}
		if property.Dynamic {
			detail.Evaluation = types.EvaluationTypeDynamic
		}
		if attribute == types.ResourceAttributeTags {
			detail.Target.Name = nil
			detail.Target.RequiresRecreation = types.RequiresRecreationNever
		}
		shown.Details = append(shown.Details, detail)
	}
	for attribute, differs := range map[types.ResourceAttribute]bool{
		types.ResourceAttributeMetadata: c.Metadata, types.ResourceAttributeTags: c.Tags && !scope["Tags"],
	} {
		if differs {
			scope[attribute] = true
			shown.Details = append(shown.Details, types.ResourceChangeDetail{
				ChangeSource: types.ChangeSourceDirectModification, Evaluation: types.EvaluationTypeStatic,
				Target: &types.ResourceTargetDefinition{Attribute: attribute,
					RequiresRecreation: types.RequiresRecreationNever},
			})
		}
	}
	shown.Scope = slices.Sorted(maps.Keys(scope))
}

func valueText(value any) *string {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		return &v
	}
	return aws.String(jsonText(value))
}

// hideValues removes the values of properties, which are shown on demand only.
func hideValues(c *types.ResourceChange) {
	c.BeforeContext, c.AfterContext = nil, nil
	for i := range c.Details {
		if t := c.Details[i].Target; t != nil {
			t.BeforeValue, t.AfterValue, t.Path = nil, nil, nil
		}
	}
}
