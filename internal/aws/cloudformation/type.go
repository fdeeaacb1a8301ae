package cloudformation

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
)

// typeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) typeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeType, wire.OnAll),
		wire.Handle(s.ListTypes, wire.OnAll),
	}
}

func typeARN(region, name string) string {
	return "arn:aws:cloudformation:" + region + "::type/resource/" + strings.ReplaceAll(name, "::", "-")
}

// servedTypes returns the names of the resource types that stacks may contain, sorted.
func (s *Service) servedTypes() []string {
	return slices.DeleteFunc(slices.Clone(schema.Names()), func(name string) bool {
		_, served := s.options.Types.Refused(name)
		return !served
	})
}

// DescribeType describes a resource type that stacks may contain.
func (s *Service) DescribeType(ctx context.Context, in *cloudformation.DescribeTypeInput) (
	*cloudformation.DescribeTypeOutput, error) {
	region := scopeOf(ctx).region
	name := aws.ToString(in.TypeName)
	if arn := aws.ToString(in.Arn); arn != "" {
		_, short, _ := strings.Cut(arn, ":type/resource/")
		name = strings.ReplaceAll(short, "-", "::")
	} else if name == "" || in.Type == "" {
		return nil, validation("Either an ARN or TypeName and Type must be provided")
	}
	if in.Type != "" && in.Type != types.RegistryTypeResource || !slices.Contains(s.servedTypes(), name) {
		return nil, &types.TypeNotFoundException{Message: aws.String("The type '" + name + "' cannot be found.")}
	}
	kind, _ := schema.Of(name)
	text, err := json.Marshal(typeSchema(kind))
	if err != nil {
		return nil, err
	}
	return &cloudformation.DescribeTypeOutput{
		Arn: aws.String(typeARN(region, name)), Type: types.RegistryTypeResource, TypeName: aws.String(name),
		Schema: aws.String(string(text)), Visibility: types.VisibilityPublic,
		ProvisioningType: types.ProvisioningTypeFullyMutable, DeprecatedStatus: types.DeprecatedStatusLive,
		Description: aws.String("Resource type definition for " + name), IsDefaultVersion: aws.Bool(true),
	}, nil
}

// typeSchema returns the part of a resource type's schema that Coracle knows.
func typeSchema(t *schema.Type) map[string]any {
	properties, pointers := map[string]any{}, func(names []string) []string {
		var list []string
		for _, name := range names {
			list = append(list, "/properties/"+strings.ReplaceAll(name, ".", "/"))
		}
		slices.Sort(list)
		return list
	}
	var required, createOnly, readOnly []string
	for name, p := range t.Properties {
		properties[name] = map[string]any{}
		if p.Required {
			required = append(required, name)
		}
		if p.RequiresRecreation == schema.Always {
			createOnly = append(createOnly, name)
		}
	}
	for name := range t.Attributes {
		readOnly = append(readOnly, name)
		if first, _, _ := strings.Cut(name, "."); properties[first] == nil {
			properties[first] = map[string]any{}
		}
	}
	slices.Sort(required)
	return map[string]any{
		"typeName": t.Name, "properties": properties, "required": required, "additionalProperties": false,
		"createOnlyProperties": pointers(createOnly), "readOnlyProperties": pointers(readOnly),
		"writeOnlyProperties": pointers(t.WriteOnly), "primaryIdentifier": pointers(t.PrimaryIdentifier),
	}
}

// ListTypes lists the resource types that stacks may contain.
func (s *Service) ListTypes(ctx context.Context, in *cloudformation.ListTypesInput) (
	*cloudformation.ListTypesOutput, error) {
	region := scopeOf(ctx).region
	out := &cloudformation.ListTypesOutput{TypeSummaries: []types.TypeSummary{}}
	if in.Type != "" && in.Type != types.RegistryTypeResource || in.Visibility == types.VisibilityPrivate {
		return out, nil // there are no modules, no hooks and no private types
	}
	names := s.servedTypes()
	if f := in.Filters; f != nil {
		prefix := aws.ToString(f.TypeNamePrefix)
		names = slices.DeleteFunc(names, func(name string) bool {
			return !strings.HasPrefix(name, prefix) || f.Category == types.CategoryThirdParty
		})
	}
	page, next, err := wire.Page(ctx, names, in.MaxResults, in.NextToken, func(name string) string { return name })
	if err != nil {
		return nil, err
	}
	out.NextToken = next
	for _, name := range page {
		out.TypeSummaries = append(out.TypeSummaries, types.TypeSummary{
			Type: types.RegistryTypeResource, TypeName: aws.String(name), TypeArn: aws.String(typeARN(region, name)),
			Description: aws.String("Resource type definition for " + name),
		})
	}
	return out, nil
}
