package cloudformation

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/cloudformation/plan"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
	"github.com/coracle-eks/coracle/internal/cloudformation/template"
)

// Bounds of the text of a change set's changes, in bytes of JSON: of what all of it has, and of what is made before
// memory is taken for it, of which each byte takes changeFactor until it is recorded or sent.
const (
	maxChangeText  = 8 << 20
	changeStep     = 1 << 20
	changeFactor   = 4
	freeChangeText = 64 << 10
)

// changeView shows the changes of an update as change sets have them, as long as they are not too large.
type changeView struct {
	ctx        context.Context
	secrets    *revision.Secrets
	bound      *template.Bound
	parameters map[string]bool
	changed    map[string]bool // resources by their logical ID
	size, held int             // of the texts, in bytes
}

// showChanges returns the changes of an update as change sets have them.
func showChanges(ctx context.Context, p *prepared, imports map[string]map[string]string) ([]types.Change, error) {
	v := &changeView{ctx: ctx, secrets: revision.SecretsOf(p.row, p.previous), bound: p.bound,
		parameters: map[string]bool{}, changed: map[string]bool{}}
	for _, c := range p.changes {
		v.changed[c.LogicalID] = true
	}
	for _, parameter := range p.row.Parameters {
		v.parameters[parameter.Key] = true
	}
	list := []types.Change{}
	for _, c := range p.changes {
		shown := &types.ResourceChange{Action: types.ChangeAction(c.Action), LogicalResourceId: aws.String(c.LogicalID),
			Scope: []types.ResourceAttribute{}, Details: []types.ResourceChangeDetail{}}
		var err error
		switch c.Action {
		case plan.Add:
			shown.ResourceType = aws.String(c.New.Type)
			shown.AfterContext, err = v.contextOf(c.New)
			if imports[c.LogicalID] != nil {
				shown.Action = types.ChangeActionImport
			}
		case plan.Remove:
			shown.ResourceType, shown.PhysicalResourceId = aws.String(c.Old.Type), aws.String(shownID(c.Old))
			shown.PolicyAction = types.PolicyActionDelete
			shown.BeforeContext, err = v.contextOf(c.Old)
		case plan.Modify:
			err = v.showModification(shown, c)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, types.Change{Type: types.ChangeTypeResource, ResourceChange: shown})
	}
	return list, nil
}

func shownID(r plan.Resource) string {
	if r.Ref != "" {
		return r.Ref
	}
	return r.PhysicalID
}

// addText counts a text that the change set has.
func (v *changeView) addText(text string) (*string, error) {
	if v.size += len(text); v.size > maxChangeText {
		return nil, errManyChanges(v.size)
	}
	if v.size > freeChangeText+v.held {
		step := max(v.size-freeChangeText-v.held, changeStep)
		v.held += step
		if err := wire.HoldAnswer(v.ctx, int64(changeFactor*step)); err != nil {
			return nil, err
		}
	}
	return &text, nil
}

func errManyChanges(size int) error {
	return validation("The change set has too many changes: %d bytes", size)
}

func (v *changeView) contextOf(r plan.Resource) (*string, error) {
	return v.addText(jsonText(map[string]any{"Properties": v.secrets.Value(r.Properties)}))
}

func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// isChanged reports whether a name is that of a parameter, or of a resource that changes.
func (v *changeView) isChanged(name string) (parameter, resource bool) {
	return v.parameters[name], v.changed[name]
}

func (v *changeView) showModification(shown *types.ResourceChange, c plan.Change) (err error) {
	shown.ResourceType, shown.PhysicalResourceId = aws.String(c.New.Type), aws.String(shownID(c.Old))
	shown.Replacement = types.Replacement(c.Replacement)
	if shown.BeforeContext, err = v.contextOf(c.Old); err != nil {
		return err
	}
	if shown.AfterContext, err = v.contextOf(c.New); err != nil {
		return err
	}
	scope := map[types.ResourceAttribute]bool{}
	properties, _ := v.bound.Resource(c.LogicalID).Properties.(map[string]any)
	for _, property := range schema.MergeChanges(c.Properties) {
		name := property.Name
		attribute := types.ResourceAttributeProperties
		if name == "Tags" {
			attribute = types.ResourceAttributeTags
		}
		scope[attribute] = true
		cause := plan.CauseOf(properties[name], v.isChanged)
		detail := types.ResourceChangeDetail{
			ChangeSource: types.ChangeSource(cause.Source), CausingEntity: optional(cause.Entity),
			Evaluation: types.EvaluationTypeStatic,
			Target: &types.ResourceTargetDefinition{Attribute: attribute, Name: aws.String(name),
				RequiresRecreation: types.RequiresRecreation(property.RequiresRecreation),
				Path:               aws.String(property.Path)},
		}
		if detail.Target.BeforeValue, err = v.valueText(c.Old.Properties[name]); err != nil {
			return err
		}
		if detail.Target.AfterValue, err = v.valueText(c.New.Properties[name]); err != nil {
			return err
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
	return nil
}

func (v *changeView) valueText(value any) (*string, error) {
	switch shown := v.secrets.Value(value).(type) {
	case nil:
		return nil, nil
	case string:
		return v.addText(shown)
	default:
		return v.addText(jsonText(shown))
	}
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
