package ssm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/regexsize"
	"github.com/coracle-eks/coracle/internal/store"
)

// https://docs.aws.amazon.com/general/latest/gr/ssm.html#limits_ssm
const (
	maxStandard = 4 << 10 // bytes of a value
	maxAdvanced = 8 << 10
	maxVersions = 100
	maxCount    = 10_000 // standard parameters of an account in a region
)

var imageID = regexp.MustCompile(`^ami-([0-9a-f]{8}|[0-9a-f]{17})$`)

// putHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) putHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutParameter, s.putTargets),
		wire.Handle(s.DeleteParameter, func(
			ctx context.Context, action string, in *ssm.DeleteParameterInput,
		) ([]wire.Target, error) {
			return s.onParameters(ctx, action, *in.Name), nil
		}),
		wire.Handle(s.DeleteParameters, func(
			ctx context.Context, action string, in *ssm.DeleteParametersInput,
		) ([]wire.Target, error) {
			return s.onParameters(ctx, action, in.Names...), nil
		}),
	}
}

// putTargets returns the authorization targets of a request: the parameter that it writes, and its tagging.
func (s *Service) putTargets(ctx context.Context, action string, in *ssm.PutParameterInput) ([]wire.Target, error) {
	written, err := s.onWritten(ctx, action, *in.Name, aws.ToBool(in.Overwrite))
	if err != nil {
		return nil, err
	}
	targets := addRequestTags([]wire.Target{written}, in.Tags)
	if in.Overwrite != nil {
		targets[0].Conditions["ssm:Overwrite"] = []string{strconv.FormatBool(*in.Overwrite)}
	}
	if len(in.Tags) > 0 {
		tagging := targets[0]
		tagging.Action = "ssm:AddTagsToResource"
		targets = append(targets, tagging)
	}
	return targets, nil
}

// PutParameter makes a parameter, or gives one another value.
func (s *Service) PutParameter(ctx context.Context, in *ssm.PutParameterInput) (*ssm.PutParameterOutput, error) {
	at := scopeOf(ctx)
	name := *in.Name
	if strings.HasPrefix(name, "arn:") {
		r, err := at.parseReference(name)
		if err != nil {
			return nil, err
		}
		name = r.name
	}
	v, err := s.newVersion(ctx, name, in)
	if err != nil {
		return nil, err
	}
	tags := make(map[string]string)
	for _, t := range in.Tags {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	if err := checkTags(ctx, tags, nil); err != nil {
		return nil, err
	}
	plain := v
	for {
		row, err := s.parameters.Copy(ctx, at.parameterKey(name))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		v = plain
		if err := s.protect(ctx, at.parameterARN(name), cmp.Or(in.Type, row.Value.Type), in, &v); err != nil {
			return nil, err
		}
		var ops []store.Op
		switch {
		case errors.Is(err, store.ErrNotFound):
			ops, err = s.createOps(at, name, in.Type, tags, &v)
		case err == nil:
			ops, err = s.overwrite(ctx, row, in, &v)
		}
		if err != nil {
			return nil, err
		}
		err = s.store.Txn(ctx, ops...)
		if err == nil {
			return &ssm.PutParameterOutput{Tier: v.Tier, Version: v.Version}, nil
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrExists) &&
			!errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
}

// newVersion returns the version that a request asks for, without its number.
func (s *Service) newVersion(ctx context.Context, name string, in *ssm.PutParameterInput) (
	record.ParameterVersion, error) {
	none := record.ParameterVersion{}
	if err := checkNewName(name); err != nil {
		return none, err
	}
	if in.Type != "" && !slices.Contains(types.ParameterType("").Values(), in.Type) {
		return none, &types.UnsupportedParameterType{Message: new("The parameter type " + string(in.Type) +
			" is not supported. Valid values: [SecureString, String, StringList]")}
	}
	if len(in.Tags) > 0 && aws.ToBool(in.Overwrite) {
		return none,
			validation(
				"Invalid request: tags and overwrite can't be used together. To create a parameter with tags, please " +
					"remove overwrite flag. To update tags for an existing parameter, please use AddTagsToResource " +
					"or RemoveTagsFromResource.")
	}
	if policies := strings.Join(strings.Fields(aws.ToString(in.Policies)), ""); policies != "" && policies != "[]" &&
		policies != "{}" {
		return none, &types.InvalidPolicyTypeException{
			Message: new("Parameter policies are not supported by coracle: put the parameter without them.")}
	}
	v := record.ParameterVersion{
		Value: *in.Value, Description: aws.ToString(in.Description), AllowedPattern: aws.ToString(in.AllowedPattern),
		DataType:   aws.ToString(in.DataType),
		ModifiedAt: s.now().UTC().Truncate(time.Millisecond), ModifiedBy: wire.CallerFrom(ctx).ARN,
	}
	if v.Value == "" {
		return none,
			validation(
				"1 validation error detected: Value '' at 'value' failed to satisfy constraint: Member must have " +
					"length greater than or equal to 1.")
	}
	if strings.Contains(v.Value, "{{") && strings.Contains(v.Value, "}}") {
		return none, validation("Parameter value can't nest another parameter. Do not use \"{{}}\" in the value.")
	}
	var err error
	if v.Tier, err = resolveTier(in.Tier, len(v.Value)); err != nil {
		return none, err
	}
	switch v.DataType {
	case "":
		v.DataType = "text"
	case "text":
	case "aws:ec2:image":
		if !imageID.MatchString(v.Value) {
			return none,
				validation(
					"The following parameter value does not meet the requirements of data type aws:ec2:image: %s",
					v.Value)
		}
	default:
		return none, validation("The following data type is not supported: %s (Data type names are all lowercase.)",
			v.DataType)
	}
	if v.AllowedPattern != "" {
		pattern, err := compilePattern(v.AllowedPattern)
		if err != nil {
			return none, &types.InvalidAllowedPatternException{
				Message: new("The request does not meet the regular expression requirement: " + v.AllowedPattern +
					": " + err.Error())}
		}
		if !pattern.MatchString(v.Value) {
			return none, &types.ParameterPatternMismatchException{
				Message: new("Parameter value, cannot be validated against allowedPattern: " + v.AllowedPattern)}
		}
	}
	return v, nil
}

// maxProgram is about how many instructions the compiled pattern of a parameter may have. A match takes time in
// proportion to them and to the length of the value.
const maxProgram = 5000

func compilePattern(pattern string) (*regexp.Regexp, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if n := regexsize.Estimate(tree); n > maxProgram { // before it is compiled, which takes memory for each
		return nil, fmt.Errorf("about %d instructions are more than the %d that a pattern may have: use smaller counts",
			n, maxProgram)
	}
	return regexp.Compile(pattern)
}

// resolveTier returns the tier of a value for the requested tier, which may be empty.
func resolveTier(asked types.ParameterTier, size int) (types.ParameterTier, error) {
	if !slices.Contains(append(types.ParameterTier("").Values(), ""), asked) {
		return "",
			validation(
				"1 validation error detected: Value '%s' at 'tier' failed to satisfy constraint: Member must satisfy "+
					"enum value set: [Standard, Advanced, Intelligent-Tiering]", asked)
	}
	const see = "For more information, see " +
		"https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html"
	switch {
	case size > maxAdvanced:
		return "", validation("Advanced tier parameters support a maximum parameter value of %d characters. %s",
			maxAdvanced, see)
	case asked == types.ParameterTierAdvanced, asked == types.ParameterTierIntelligentTiering && size > maxStandard:
		return types.ParameterTierAdvanced, nil
	case size > maxStandard:
		return "",
			validation(
				"Standard tier parameters support a maximum parameter value of %d characters. To create a larger "+
					"parameter value, upgrade the parameter to use the advanced-parameter tier. %s", maxStandard, see)
	}
	return types.ParameterTierStandard, nil
}

func (s *Service) createOps(at scope, name string, kind types.ParameterType,
	tags map[string]string,
	v *record.ParameterVersion) ([]store.Op, error) {
	if kind == "" {
		return nil, validation("A parameter type is required when you create a parameter.")
	}
	if s.parameters.Count(store.Prefix(at.account, at.region)) >= maxCount {
		return nil, &types.ParameterLimitExceeded{
			Message: new(
				"You have exceeded the number of parameters for this AWS account. Delete one or more parameters and " +
					"try again.")}
	}
	v.Version = 1
	return []store.Op{
		s.parameters.CreateOp(at.parameterKey(name), record.Parameter{Account: at.account, Region: at.region,
			Name: name,
			Type: kind, Latest: 1, Tags: tags}),
		s.versions.PutOp(record.ParameterVersionKey(at.account, at.region, name, 1), *v),
	}, nil
}

func (s *Service) overwrite(ctx context.Context, row store.Row[record.Parameter], in *ssm.PutParameterInput,
	v *record.ParameterVersion) ([]store.Op, error) {
	p := &row.Value
	if !aws.ToBool(in.Overwrite) {
		return nil, &types.ParameterAlreadyExists{
			Message: new(
				"The parameter already exists. To overwrite this value, set the overwrite option in the request to true.")}
	}
	if in.Type != "" && in.Type != p.Type {
		return nil, &types.HierarchyTypeMismatchException{
			Message: new("Parameter Store doesn't support changing a parameter type in a hierarchy: " + p.Name +
				" is a " + string(p.Type) + ", not a " + string(in.Type) + ". Create a new, unique parameter.")}
	}
	latest, err := s.version(ctx, *p, p.Latest)
	if err != nil {
		return nil, err
	}
	if in.Description == nil {
		v.Description = latest.Description
	}
	if in.DataType == nil {
		v.DataType = latest.DataType
	}
	if latest.Tier == types.ParameterTierAdvanced && v.Tier == types.ParameterTierStandard {
		if in.Tier == types.ParameterTierStandard {
			return nil,
				validation(
					"This parameter uses the advanced-parameter tier. You can't downgrade a parameter from the " +
						"advanced-parameter tier to the standard-parameter tier. If necessary, you can delete the " +
						"advanced parameter and recreate it as a standard parameter.")
		}
		v.Tier = types.ParameterTierAdvanced
	}
	p.Latest++
	v.Version = p.Latest
	ops := []store.Op{s.parameters.UpdateOp(row), s.versions.PutOp(record.ParameterVersionKey(p.Account, p.Region,
		p.Name, v.Version), *v)}
	versions, err := s.versions.List(ctx, store.Prefix(p.Account, p.Region, p.Name))
	if err != nil {
		return nil, err
	}
	if len(versions) >= maxVersions {
		oldest := versions[0].Value.Version
		if slices.Contains(slices.Collect(maps.Values(p.Labels)), oldest) {
			return nil, &types.ParameterMaxVersionLimitExceeded{
				Message: new("You attempted to create a new version of " + p.Name +
					" by calling the PutParameter API with the overwrite flag. The oldest version can't be deleted " +
					"because it has a label associated with it. Move the label to another version of the parameter, " +
					"and try again.")}
		}
		ops = append(ops, s.versions.RemoveOp(versions[0].Key))
	}
	return ops, nil
}

// DeleteParameter deletes a parameter with all its versions.
func (s *Service) DeleteParameter(ctx context.Context, in *ssm.DeleteParameterInput) (
	*ssm.DeleteParameterOutput, error) {
	if err := s.deleteParameter(ctx, in.Name); err != nil {
		return nil, err
	}
	return &ssm.DeleteParameterOutput{}, nil
}

// DeleteParameters deletes several parameters; the names of those that are not there come beside the others.
func (s *Service) DeleteParameters(ctx context.Context, in *ssm.DeleteParametersInput) (
	*ssm.DeleteParametersOutput, error) {
	out := &ssm.DeleteParametersOutput{DeletedParameters: []string{}, InvalidParameters: []string{}}
	for _, name := range in.Names {
		err := s.deleteParameter(ctx, &name)
		var absent *types.ParameterNotFound
		switch {
		case errors.As(err, &absent):
			out.InvalidParameters = append(out.InvalidParameters, name)
		case err != nil:
			return nil, err
		default:
			out.DeletedParameters = append(out.DeletedParameters, name)
		}
	}
	return out, nil
}

func (s *Service) deleteParameter(ctx context.Context, name *string) error {
	for {
		row, err := s.ownByName(ctx, name)
		if err != nil {
			return err
		}
		versions, err := s.versions.List(ctx, store.Prefix(row.Value.Account, row.Value.Region, row.Value.Name))
		if err != nil {
			return err
		}
		ops := []store.Op{s.parameters.DeleteOp(row)}
		for _, v := range versions {
			ops = append(ops, s.versions.RemoveOp(v.Key))
		}
		if err := s.store.Txn(ctx, ops...); !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
}
