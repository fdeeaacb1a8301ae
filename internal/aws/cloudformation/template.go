package cloudformation

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
	"github.com/coracle-eks/coracle/internal/cloudformation/template"
)

// templateHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) templateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.GetTemplate, func(
			ctx context.Context, action string, in *cloudformation.GetTemplateInput,
		) ([]wire.Target, error) {
			if aws.ToString(in.ChangeSetName) != "" {
				return s.onChangeSet(ctx, action, in.ChangeSetName, in.StackName)
			}
			return s.onStack(ctx, action, in.StackName)
		}),
		wire.Handle(s.GetTemplateSummary, func(
			ctx context.Context, action string, in *cloudformation.GetTemplateSummaryInput,
		) ([]wire.Target, error) {
			return s.onStackOrAll(ctx, action, in.StackName)
		}),
		wire.Handle(s.ValidateTemplate, wire.OnAll),
		wire.Handle(s.EstimateTemplateCost, wire.OnAll),
	}
}

// GetTemplate returns the template of a stack or a change set, as it was sent.
func (s *Service) GetTemplate(ctx context.Context, in *cloudformation.GetTemplateInput) (
	*cloudformation.GetTemplateOutput, error) {
	var v view
	var revision string
	if aws.ToString(in.ChangeSetName) != "" {
		set, of, err := s.getChangeSet(ctx, in.ChangeSetName, in.StackName)
		if err != nil {
			return nil, err
		}
		v, revision = of, set.Value.Revision
	} else {
		found, err := s.get(ctx, in.StackName)
		if err != nil {
			return nil, err
		}
		v, revision = found, found.current()
		if revision == "" {
			return nil, validation("Stack [%s] has no template: it has only change sets", v.Name)
		}
	}
	body, err := s.storedTemplate(ctx, v, revision)
	if err != nil {
		return nil, err
	}
	out := &cloudformation.GetTemplateOutput{TemplateBody: aws.String(body),
		StagesAvailable: []types.TemplateStage{types.TemplateStageOriginal, types.TemplateStageProcessed}}
	if in.TemplateStage == types.TemplateStageProcessed {
		if out.TemplateBody, err = s.processed(ctx, v, revision, body); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// processed returns a template after its transforms; as it was sent if it has none.
func (s *Service) processed(ctx context.Context, v view, id, body string) (*string, error) {
	parsed, err := parse(ctx, body)
	if err != nil {
		return nil, err
	}
	if len(parsed.Transforms) == 0 {
		return &body, nil
	}
	row, err := s.revision(ctx, v, id)
	if err != nil {
		return nil, err
	}
	in := revision.Inputs(v.Stack, row)
	in.Hold = memoryReserver(ctx)
	bound, err := parsed.Bind(ctx, in)
	if err != nil {
		return nil, invalidTemplate(err)
	}
	text, err := bound.Processed()
	if err != nil {
		return nil, err
	}
	return &text, nil
}

// bodyOf returns the template of a request that is not about a stack.
func bodyOf(ctx context.Context, body, url *string) (*template.Template, error) {
	s := &Service{}
	text, err := s.templateBody(ctx, view{}, body, url, nil)
	if err != nil {
		return nil, err
	}
	return parse(ctx, text)
}

// ValidateTemplate checks the form of a template, and lists its parameters and the capabilities that it needs.
func (s *Service) ValidateTemplate(ctx context.Context, in *cloudformation.ValidateTemplateInput) (
	*cloudformation.ValidateTemplateOutput, error) {
	parsed, err := bodyOf(ctx, in.TemplateBody, in.TemplateURL)
	if err != nil {
		return nil, err
	}
	summary := parsed.Summary()
	out := &cloudformation.ValidateTemplateOutput{Description: optional(summary.Description),
		DeclaredTransforms: summary.Transforms, Parameters: []types.TemplateParameter{}}
	out.Capabilities, out.CapabilitiesReason = shownCapabilities(parsed)
	for _, p := range summary.Parameters {
		out.Parameters = append(out.Parameters, types.TemplateParameter{ParameterKey: aws.String(p.Key),
			DefaultValue: p.Default, NoEcho: aws.Bool(p.NoEcho), Description: optional(p.Description)})
	}
	return out, nil
}

func shownCapabilities(t *template.Template) ([]types.Capability, *string) {
	var list []types.Capability
	needs, reason := t.Capabilities()
	for _, c := range t.MissingCapabilities(needs, nil) {
		list = append(list, types.Capability(c))
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, &reason
}

// GetTemplateSummary describes a template, or that of a stack.
func (s *Service) GetTemplateSummary(ctx context.Context, in *cloudformation.GetTemplateSummaryInput) (
	*cloudformation.GetTemplateSummaryOutput, error) {
	var parsed *template.Template
	name := aws.ToString(in.StackName)
	switch given := aws.ToString(in.TemplateBody) != "" || aws.ToString(in.TemplateURL) != ""; {
	case aws.ToString(in.StackSetName) != "":
		return nil, validation("StackSets are not supported by coracle")
	case given && name != "":
		return nil, validation("You may specify either a template or a stack name, but not both")
	case name != "":
		v, err := s.get(ctx, in.StackName)
		if err != nil {
			return nil, err
		}
		if v.current() == "" {
			return nil, validation("Stack [%s] has no template: it has only change sets", name)
		}
		body, err := s.storedTemplate(ctx, v, v.current())
		if err != nil {
			return nil, err
		}
		if parsed, err = parse(ctx, body); err != nil {
			return nil, err
		}
	default:
		var err error
		if parsed, err = bodyOf(ctx, in.TemplateBody, in.TemplateURL); err != nil {
			return nil, err
		}
	}
	summary := parsed.Summary()
	out := &cloudformation.GetTemplateSummaryOutput{
		Description: optional(summary.Description), Version: optional(summary.Version),
		DeclaredTransforms: summary.Transforms, ResourceTypes: summary.ResourceTypes,
		Parameters: []types.ParameterDeclaration{},
	}
	if summary.Metadata != nil {
		text, err := json.Marshal(summary.Metadata)
		if err != nil {
			return nil, err
		}
		out.Metadata = aws.String(string(text))
	}
	out.Capabilities, out.CapabilitiesReason = shownCapabilities(parsed)
	for _, p := range summary.Parameters {
		shown := types.ParameterDeclaration{ParameterKey: aws.String(p.Key), ParameterType: aws.String(p.Type),
			DefaultValue: p.Default, NoEcho: aws.Bool(p.NoEcho), Description: optional(p.Description),
			ParameterConstraints: &types.ParameterConstraints{AllowedValues: p.AllowedValues}}
		out.Parameters = append(out.Parameters, shown)
	}
	for _, name := range summary.ResourceTypes {
		kind, ok := schema.Of(name)
		if !ok || len(kind.PrimaryIdentifier) == 0 {
			continue
		}
		ids := slices.Clone(summary.LogicalIDs[name])
		out.ResourceIdentifierSummaries = append(out.ResourceIdentifierSummaries, types.ResourceIdentifierSummary{
			ResourceType: aws.String(name), LogicalResourceIds: ids, ResourceIdentifiers: kind.PrimaryIdentifier})
	}
	return out, nil
}

// EstimateTemplateCost is refused: nothing costs anything here.
func (s *Service) EstimateTemplateCost(context.Context, *cloudformation.EstimateTemplateCostInput) (
	*cloudformation.EstimateTemplateCostOutput, error) {
	return nil, validation("EstimateTemplateCost is not supported by coracle: its resources have no price")
}
