package ssm

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// findParameter returns the account's parameter of that name, or a ParameterNotFound.
func (s *Service) findParameter(ctx context.Context, r reference) (store.Row[record.Parameter], error) {
	at := scopeOf(ctx)
	row, err := s.parameters.Get(ctx, at.parameterKey(r.name))
	if errors.Is(err, store.ErrNotFound) && strings.HasPrefix(r.asked, "arn:") && strings.Count(r.name, "/") == 1 {
		// The ARN of "name" is also that of "/name".
		row, err = s.parameters.Get(ctx, at.parameterKey(strings.TrimPrefix(r.name, "/")))
	}
	if errors.Is(err, store.ErrNotFound) {
		return row, notFound()
	}
	return row, err
}

// ownByName returns the account's parameter for an operation that takes a name without version or label.
func (s *Service) ownByName(ctx context.Context, asked *string) (store.Row[record.Parameter], error) {
	r, err := scopeOf(ctx).parseReference(aws.ToString(asked))
	if err != nil {
		return store.Row[record.Parameter]{}, err
	}
	if r.selector != "" {
		return store.Row[record.Parameter]{}, notFound()
	}
	return s.findParameter(ctx, r)
}

// version returns one version of a parameter.
func (s *Service) version(ctx context.Context, p record.Parameter, version int64) (record.ParameterVersion, error) {
	row, err := s.versions.Get(ctx, record.ParameterVersionKey(p.Account, p.Region, p.Name, version))
	if errors.Is(err, store.ErrNotFound) {
		return row.Value, versionNotFound(p.Name, strconv.FormatInt(version, 10))
	}
	return row.Value, err
}

// getParameter returns a parameter, public or the account's, as GetParameter shows it.
func (s *Service) getParameter(ctx context.Context, asked string, decrypt *bool) (types.Parameter, error) {
	at := scopeOf(ctx)
	r, err := at.parseReference(asked)
	if err != nil {
		return types.Parameter{}, err
	}
	if isPublic(r.name) {
		return publicParameter(at.region, r)
	}
	row, err := s.findParameter(ctx, r)
	if err != nil {
		return types.Parameter{}, err
	}
	p, number := row.Value, row.Value.Latest
	if r.selector != "" {
		if n, err := strconv.ParseInt(r.selector, 10, 64); err == nil {
			number = n
		} else if number = p.Labels[r.selector]; number == 0 {
			return types.Parameter{}, versionNotFound(p.Name, r.selector)
		}
	}
	v, err := s.version(ctx, p, number)
	if err != nil {
		return types.Parameter{}, err
	}
	if v.Value, err = s.reveal(ctx, p, v, decrypt); err != nil {
		return types.Parameter{}, err
	}
	shown := parameterOutput(p, v)
	if r.selector != "" {
		shown.Selector = new(":" + r.selector)
	}
	return shown, nil
}

func parameterOutput(p record.Parameter, v record.ParameterVersion) types.Parameter {
	return types.Parameter{
		ARN: new(p.ARN()), DataType: &v.DataType, LastModifiedDate: &v.ModifiedAt, Name: &p.Name, Type: p.Type,
		Value: &v.Value, Version: v.Version,
	}
}

// getHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) getHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.GetParameter, func(
			ctx context.Context, action string, in *ssm.GetParameterInput,
		) ([]wire.Target, error) {
			return s.onParameters(ctx, action, *in.Name), nil
		}),
		wire.Handle(s.GetParameters, func(
			ctx context.Context, action string, in *ssm.GetParametersInput,
		) ([]wire.Target, error) {
			return s.onParameters(ctx, action, in.Names...), nil
		}),
		wire.Handle(s.GetParametersByPath, pathTargets),
		wire.Handle(s.GetParameterHistory, func(
			ctx context.Context, action string, in *ssm.GetParameterHistoryInput,
		) ([]wire.Target, error) {
			return s.onParameters(ctx, action, *in.Name), nil
		}),
	}
}

// GetParameter returns one parameter, by name or ARN, optionally with ":version" or ":label".
func (s *Service) GetParameter(ctx context.Context, in *ssm.GetParameterInput) (*ssm.GetParameterOutput, error) {
	p, err := s.getParameter(ctx, *in.Name, in.WithDecryption)
	if err != nil {
		return nil, err
	}
	return &ssm.GetParameterOutput{Parameter: &p}, nil
}

// GetParameters returns several parameters, and the names of those that do not exist.
func (s *Service) GetParameters(ctx context.Context, in *ssm.GetParametersInput) (*ssm.GetParametersOutput, error) {
	out := &ssm.GetParametersOutput{InvalidParameters: []string{}, Parameters: []types.Parameter{}}
	for i, name := range in.Names {
		if slices.Contains(in.Names[:i], name) {
			return nil, validation("Duplicate parameter name in request: %s", name)
		}
		p, err := s.getParameter(ctx, name, in.WithDecryption)
		var api interface{ ErrorCode() string }
		switch {
		case err == nil:
			out.Parameters = append(out.Parameters, p)
		case errors.As(err, &api) && (api.ErrorCode() == "ParameterNotFound" ||
			api.ErrorCode() == "ParameterVersionNotFound"):
			out.InvalidParameters = append(out.InvalidParameters, name)
		default:
			return nil, err
		}
	}
	return out, nil
}

// maxByPath is the largest page of GetParametersByPath, and the one when no size is asked for.
const maxByPath = 10

// pathTargets returns the authorization target of a request: the path below which it reads.
func pathTargets(ctx context.Context, action string, in *ssm.GetParametersByPathInput) ([]wire.Target, error) {
	path := scopeOf(ctx).hierarchyPath(*in.Path)
	t := wire.Target{Action: action, Resource: scopeOf(ctx).parameterARN(path), Conditions: make(map[string][]string)}
	if path != "/" {
		t.Resource = strings.TrimSuffix(t.Resource, "/")
	}
	if aws.ToBool(in.Recursive) {
		t.Conditions["ssm:Recursive"] = []string{"true"}
	}
	return []wire.Target{t}, nil
}

// GetParametersByPath returns the parameters of a hierarchy. Tools use it to list all images of a version.
func (s *Service) GetParametersByPath(ctx context.Context, in *ssm.GetParametersByPathInput) (
	*ssm.GetParametersByPathOutput, error) {
	path := scopeOf(ctx).hierarchyPath(*in.Path)
	if err := checkPath(path); err != nil {
		return nil, err
	}
	label, kind, keys, err := pathFilters(in.ParameterFilters)
	if err != nil {
		return nil, err
	}
	size := aws.ToInt32(in.MaxResults)
	if size == 0 {
		size = maxByPath
	}
	names, rows, err := s.namesBelow(ctx, path, aws.ToBool(in.Recursive))
	if err != nil {
		return nil, err
	}
	var latest record.ParameterVersion
	names = slices.DeleteFunc(names, func(name string) bool {
		p, ok := rows[name]
		if !ok {
			return label != nil || keys != nil || kind != nil && !slices.Contains(kind, string(types.ParameterTypeString))
		}
		if keys != nil && err == nil {
			latest, err = s.version(ctx, p, p.Latest)
		}
		return label != nil && !slices.ContainsFunc(label, func(l string) bool { return p.Labels[l] != 0 }) ||
			kind != nil && !slices.Contains(kind, string(p.Type)) || keys != nil && !slices.Contains(keys, latest.KeyID)
	})
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, names, &size, in.NextToken, func(name string) string { return name })
	if err != nil {
		return nil, err
	}
	out := &ssm.GetParametersByPathOutput{NextToken: next, Parameters: []types.Parameter{}}
	for _, name := range page {
		for _, l := range label {
			if rows[name].Labels[l] != 0 {
				name += ":" + l
				break
			}
		}
		p, err := s.getParameter(ctx, name, in.WithDecryption)
		if err != nil {
			return nil, err
		}
		out.Parameters = append(out.Parameters, p)
	}
	return out, nil
}

// namesBelow returns the names of the parameters in a hierarchy in order, and the records of those that have one.
func (s *Service) namesBelow(ctx context.Context, path string, recursive bool) (
	[]string, map[string]record.Parameter, error) {
	at := scopeOf(ctx)
	var names []string
	if strings.HasPrefix(path+"/", "/aws/") {
		for _, name := range publicForRegion(at.region).names {
			if isBelowPath(path, name, recursive) {
				names = append(names, name)
			}
		}
		return names, nil, nil
	}
	rows, err := s.parameters.List(ctx, store.Prefix(at.account, at.region))
	if err != nil {
		return nil, nil, err
	}
	found := make(map[string]record.Parameter)
	for _, row := range rows {
		name := row.Value.Name
		if isBelowPath(path, name, recursive) || path == "/" && !strings.HasPrefix(name, "/") {
			names = append(names, name)
			found[name] = row.Value
		}
	}
	slices.Sort(names)
	return names, found, nil
}

// pathFilters returns the labels, types and KMS keys that a GetParametersByPath request is limited to.
func pathFilters(filters []types.ParameterStringFilter) (label, kind, keys []string, err error) {
	for _, f := range filters {
		if option := aws.ToString(f.Option); option != "" && option != "Equals" {
			return nil, nil, nil, &types.InvalidFilterOption{Message: new("The following filter option is not valid: " +
				option + ". Valid options include: [Equals]")}
		}
		if len(f.Values) == 0 {
			return nil, nil, nil, &types.InvalidFilterValue{
				Message: new("The following filter values are missing for filter key " + *f.Key)}
		}
		switch *f.Key {
		case "Label":
			label = f.Values
		case "Type":
			kind = f.Values
		case "KeyId":
			keys = f.Values
		default:
			return nil, nil, nil, invalidFilterKey(
				"The following filter key is not valid: %s. Valid filter keys include: [Type, KeyId, Label]", *f.Key)
		}
	}
	return label, kind, keys, nil
}

// GetParameterHistory returns all versions of a parameter, oldest first.
func (s *Service) GetParameterHistory(ctx context.Context, in *ssm.GetParameterHistoryInput) (
	*ssm.GetParameterHistoryOutput, error) {
	row, err := s.ownByName(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	p := row.Value
	rows, err := s.versions.List(ctx, store.Prefix(p.Account, p.Region, p.Name))
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, rows, in.MaxResults, in.NextToken,
		func(r store.Row[record.ParameterVersion]) string { return r.Key })
	if err != nil {
		return nil, err
	}
	out := &ssm.GetParameterHistoryOutput{NextToken: next, Parameters: []types.ParameterHistory{}}
	for _, r := range page {
		v := r.Value
		if v.Value, err = s.reveal(ctx, p, v, in.WithDecryption); err != nil {
			return nil, err
		}
		out.Parameters = append(out.Parameters, types.ParameterHistory{
			AllowedPattern: optional(v.AllowedPattern), DataType: &v.DataType, Description: optional(v.Description),
			KeyId: optional(v.KeyID), Labels: labelsOf(p, v.Version),
			LastModifiedDate: &v.ModifiedAt, LastModifiedUser: &v.ModifiedBy, Name: &p.Name,
			Policies: []types.ParameterInlinePolicy{},
			Tier:     v.Tier, Type: p.Type, Value: &v.Value, Version: v.Version,
		})
	}
	return out, nil
}

// labelsOf returns the labels of a version, in order.
func labelsOf(p record.Parameter, version int64) []string {
	labels := []string{}
	for label, on := range p.Labels {
		if on == version {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	return labels
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
