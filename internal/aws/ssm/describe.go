package ssm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// described is a parameter of the account with its latest version.
type described struct {
	record.Parameter
	latest record.ParameterVersion
}

// describeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) describeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeParameters, wire.OnAll),
	}
}

// DescribeParameters returns the account's parameters, without their values.
func (s *Service) DescribeParameters(ctx context.Context, in *ssm.DescribeParametersInput) (
	*ssm.DescribeParametersOutput, error) {
	if len(in.Filters) > 0 && len(in.ParameterFilters) > 0 {
		return nil, validation("You can use either Filters or ParameterFilters in a single request.")
	}
	filters := in.ParameterFilters
	for _, f := range in.Filters {
		option := "Equals"
		if f.Key == types.ParametersFilterKeyName {
			option = "BeginsWith"
		}
		filters = append(filters, types.ParameterStringFilter{Key: new(string(f.Key)), Option: &option,
			Values: f.Values})
	}
	matches, err := filterOf(filters)
	if err != nil {
		return nil, err
	}
	at := scopeOf(ctx)
	rows, err := s.parameters.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return nil, err
	}
	var found []described
	if aws.ToBool(in.Shared) {
		rows = nil // nothing is shared between accounts
	}
	for _, row := range rows {
		d := described{Parameter: row.Value}
		if d.latest, err = s.version(ctx, row.Value, row.Value.Latest); err != nil {
			return nil, err
		}
		if matches(d) {
			found = append(found, d)
		}
	}
	page, next, err := wire.Page(ctx, found, in.MaxResults, in.NextToken,
		func(d described) string { return at.parameterKey(d.Name) })
	if err != nil {
		return nil, err
	}
	out := &ssm.DescribeParametersOutput{NextToken: next, Parameters: []types.ParameterMetadata{}}
	for _, d := range page {
		v := d.latest
		out.Parameters = append(out.Parameters, types.ParameterMetadata{
			ARN: new(d.ARN()), AllowedPattern: optional(v.AllowedPattern), DataType: &v.DataType,
			Description: optional(v.Description), KeyId: optional(v.KeyID),
			LastModifiedDate: &v.ModifiedAt, LastModifiedUser: &v.ModifiedBy, Name: &d.Name,
			Policies: []types.ParameterInlinePolicy{},
			Tier:     v.Tier, Type: d.Type, Version: v.Version,
		})
	}
	return out, nil
}

// filterOf returns a function that reports whether a parameter passes all filters of DescribeParameters.
// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_ParameterStringFilter.html
func filterOf(filters []types.ParameterStringFilter) (func(described) bool, error) {
	var all []func(described) bool
	seen := make(map[string]bool)
	for _, f := range filters {
		key, option := aws.ToString(f.Key), aws.ToString(f.Option)
		if seen[key] {
			return nil, invalidFilterKey(
				"The following filter is duplicated in the request: %s. A request can contain only one occurrence of "+
					"a specific filter.", key)
		}
		seen[key] = true
		tag, isTag := strings.CutPrefix(key, "tag:")
		if len(f.Values) == 0 && !isTag {
			return nil, &types.InvalidFilterValue{
				Message: new("The following filter values are missing for filter key " + key + ".")}
		}
		var one func(described, string) bool
		options := []string{"Equals"}
		switch {
		case isTag:
			one = func(d described, v string) bool { value, ok := d.Tags[tag]; return ok && value == v }
			if len(f.Values) == 0 {
				all = append(all, func(d described) bool { _, ok := d.Tags[tag]; return ok })
				continue
			}
		case key == "Name":
			options = []string{"Equals", "BeginsWith", "Contains"}
			one = func(d described, v string) bool {
				switch option {
				case "BeginsWith":
					return strings.HasPrefix(d.Name, v) || strings.HasPrefix(strings.TrimPrefix(d.Name, "/"), v)
				case "Contains":
					return strings.Contains(d.Name, v)
				}
				return d.Name == v || strings.TrimPrefix(d.Name, "/") == strings.TrimPrefix(v, "/")
			}
		case key == "Path":
			options = []string{"OneLevel", "Recursive"}
			for _, path := range f.Values {
				if err := checkPath(path); err != nil {
					return nil, err
				}
			}
			one = func(d described, v string) bool { return isBelowPath(v, d.Name, option == "Recursive") }
		case key == "Type":
			for _, v := range f.Values {
				if !slices.Contains(types.ParameterType("").Values(), types.ParameterType(v)) {
					return nil, &types.InvalidFilterOption{
						Message: new(fmt.Sprintf(
							"The following filter value is not valid: %s. Valid values include: [String, StringList, "+
								"SecureString]", v))}
				}
			}
			one = func(d described, v string) bool { return string(d.Type) == v }
		case key == "KeyId":
			one = func(d described, v string) bool { return d.latest.KeyID == v }
		case key == "Label":
			one = func(d described, v string) bool { return d.Labels[v] != 0 }
		case key == "Tier":
			one = func(d described, v string) bool { return string(d.latest.Tier) == v }
		case key == "DataType":
			one = func(d described, v string) bool { return d.latest.DataType == v }
		default:
			return nil, invalidFilterKey(
				"The following filter key is not valid: %s. Valid filter keys include: [Path, Name, Type, KeyId, "+
					"Tier, Label, DataType].", key)
		}
		option = cmp.Or(option, options[0])
		if !slices.Contains(options, option) {
			return nil, &types.InvalidFilterOption{Message: new("The following filter option is not valid: " + option +
				". Valid options include: [" + strings.Join(options, ", ") + "]")}
		}
		all = append(all, func(d described) bool {
			return slices.ContainsFunc(f.Values, func(v string) bool { return one(d, v) })
		})
	}
	return func(d described) bool {
		return !slices.ContainsFunc(all, func(f func(described) bool) bool { return !f(d) })
	}, nil
}
