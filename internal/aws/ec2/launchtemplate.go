package ec2

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	maxTemplates = 5000
	// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/launch-template-limits.html
	maxTemplateVersions = 10000
	// versionsPerChange keeps the deletion of a template within what etcd takes.
	versionsPerChange = 100
)

func (s *Service) templateKind() kind[record.LaunchTemplate, types.LaunchTemplate] {
	type v = types.LaunchTemplate
	return kind[record.LaunchTemplate, v]{
		naming: naming{
			resource: types.ResourceTypeLaunchTemplate, prefix: "lt-", noun: "launch template ID",
			param:    "launchTemplateId",
			notFound: "InvalidLaunchTemplateId.NotFound", malformed: "InvalidLaunchTemplateId.Malformed",
			absent: "The specified launch template, with template ID %s, does not exist.",
		},
		table: record.LaunchTemplates(s.store),
		view: func(in scope, r record.LaunchTemplate) v {
			return v{
				CreateTime: aws.Time(r.CreatedAt), CreatedBy: aws.String(r.CreatedBy),
				DefaultVersionNumber: aws.Int64(r.DefaultVersion), LatestVersionNumber: aws.Int64(r.LatestVersion),
				LaunchTemplateId: aws.String(r.ID), LaunchTemplateName: aws.String(r.Name),
				Operator: &types.OperatorResponse{Managed: aws.Bool(false)}, Tags: s.listTags(in, r.ID),
			}
		},
		tagged: func(x v) []types.Tag { return x.Tags },
		filters: filters[v]{
			"create-time":          timeFilter(func(x v) *time.Time { return x.CreateTime }),
			"launch-template-name": stringFilter(func(x v) *string { return x.LaunchTemplateName }),
		},
	}
}

// templateNamed is the launch template that a request names by its ID or its name.
func (s *Service) templateNamed(in scope, id, name *string) (record.LaunchTemplate, error) {
	switch asksID, asksName := aws.ToString(id) != "", aws.ToString(name) != ""; {
	case asksID && asksName:
		return record.LaunchTemplate{}, wire.Errorf("InvalidParameterCombination",
			"You may specify either a launch template ID or a launch template name, not both.")
	case asksName:
		row, err := s.templateNames.Get(in, store.Key(in.account, in.region, *name))
		if errors.Is(err, store.ErrNotFound) {
			return record.LaunchTemplate{}, wire.Errorf("InvalidLaunchTemplateName.NotFoundException",
				"The specified launch template, with template name %s, does not exist.", *name)
		}
		if err != nil {
			return record.LaunchTemplate{}, err
		}
		return s.templates.getRecord(in, &row.Value.TemplateID)
	case asksID:
		return s.templates.getRecord(in, id)
	}
	return record.LaunchTemplate{}, wire.Errorf("MissingParameter",
		"Either a launch template ID or a launch template name must be specified.")
}

// templateAsked is the version of a launch template that a request asks for: a number, $Latest or $Default, which is
// also what is meant without.
func (s *Service) templateAsked(in scope, id, name, version *string) (record.LaunchTemplate,
	record.LaunchTemplateVersion, error) {
	t, err := s.templateNamed(in, id, name)
	if err != nil {
		return t, record.LaunchTemplateVersion{}, err
	}
	v, err := s.templateVersion(in, t, aws.ToString(version))
	return t, v, err
}

func (s *Service) templateVersion(in scope, t record.LaunchTemplate, version string) (record.LaunchTemplateVersion,
	error) {
	var number int64
	switch version {
	case "", "$Default":
		number = t.DefaultVersion
	case "$Latest":
		number = t.LatestVersion
	default:
		var err error
		if number, err = strconv.ParseInt(version, 10, 64); err != nil || number < 1 {
			return record.LaunchTemplateVersion{}, wire.Errorf("InvalidLaunchTemplateId.VersionNotFound",
				"Could not find the specified version %s for the launch template with ID %s.", version, t.ID)
		}
	}
	row, err := s.versions.Get(in, record.LaunchTemplateVersionKey(in.account, in.region, t.ID, number))
	if errors.Is(err, store.ErrNotFound) {
		err = wire.Errorf("InvalidLaunchTemplateId.VersionNotFound",
			"Could not find the specified version %s for the launch template with ID %s.", version, t.ID)
	}
	return row.Value, err
}

var templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)

// launchTemplateHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) launchTemplateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateLaunchTemplate, creating[ec2.CreateLaunchTemplateInput](s,
			types.ResourceTypeLaunchTemplate)),
		wire.Handle(s.DescribeLaunchTemplates, onRegion),
		wire.Handle(s.ModifyLaunchTemplate, touching[ec2.ModifyLaunchTemplateInput](s)),
		wire.Handle(s.DeleteLaunchTemplate, touching[ec2.DeleteLaunchTemplateInput](s)),
	}
}

// CreateLaunchTemplate makes a launch template with its first version.
func (s *Service) CreateLaunchTemplate(ctx context.Context, in *ec2.CreateLaunchTemplateInput) (
	*ec2.CreateLaunchTemplateOutput, error) {
	out, err := createResource(ctx, s, s.templates, creation{dryRun: in.DryRun, tags: in.TagSpecifications,
		token: in.ClientToken, request: in}, func(c *change, id string) error {
		name := aws.ToString(in.LaunchTemplateName)
		if !templateName.MatchString(name) {
			return wire.Errorf("InvalidLaunchTemplateName.MalformedException",
				"A launch template name must be between 3 and 128 characters, and may contain letters, numbers, and "+
					"the following characters: - ( ) . / _.")
		}
		if in.Operator != nil {
			return unsupported("Operator")
		}
		claim := store.Key(c.account, c.region, name)
		if _, err := s.templateNames.Get(c, claim); err == nil {
			return wire.Errorf("InvalidLaunchTemplateName.AlreadyExistsException",
				"Launch template name already in use.")
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := s.templates.checkQuota(c.scope, maxTemplates, nil, "LaunchTemplateLimitExceeded",
			"launch templates"); err != nil {
			return err
		}
		t := record.LaunchTemplate{EC2Resource: c.identity(id, in.ClientToken), Name: name, CreatedBy: c.caller.ARN,
			DefaultVersion: 1}
		if _, err := c.newVersion(&t, in.VersionDescription, in.LaunchTemplateData, nil, nil); err != nil {
			return err
		}
		c.add("templatename/"+name, &pending{op: func() store.Op {
			return s.templateNames.CreateOp(claim,
				record.LaunchTemplateName{TemplateID: id})
		}})
		s.templates.createRecord(c, t)
		return nil
	})
	return &ec2.CreateLaunchTemplateOutput{LaunchTemplate: out}, err
}

// DescribeLaunchTemplates lists launch templates.
func (s *Service) DescribeLaunchTemplates(ctx context.Context, in *ec2.DescribeLaunchTemplatesInput) (
	*ec2.DescribeLaunchTemplatesOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(in.LaunchTemplateIds)
	for _, name := range in.LaunchTemplateNames {
		t, err := s.templateNamed(sc, nil, &name)
		var unknown *wire.Error
		if errors.As(err, &unknown) {
			err = wire.Errorf("InvalidLaunchTemplateName.NotFoundException",
				"At least one of the launch templates specified in the request does not exist.")
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, t.ID)
	}
	found, next, err := describe(ctx, s, s.templates, query{in.DryRun, ids, in.Filters, in.MaxResults, in.NextToken})
	if found == nil {
		found = []types.LaunchTemplate{}
	}
	return &ec2.DescribeLaunchTemplatesOutput{LaunchTemplates: found, NextToken: next}, err
}

// ModifyLaunchTemplate makes another version the default one.
func (s *Service) ModifyLaunchTemplate(ctx context.Context, in *ec2.ModifyLaunchTemplateInput) (
	*ec2.ModifyLaunchTemplateOutput, error) {
	var after record.LaunchTemplate
	if err := s.applyChange(ctx, in.DryRun, func(c *change) error {
		t, err := s.templateNamed(c.scope, in.LaunchTemplateId, in.LaunchTemplateName)
		if err != nil {
			return err
		}
		if aws.ToString(in.DefaultVersion) == "" {
			return missing("SetDefaultVersion")
		}
		v, err := s.templateVersion(c.scope, t, *in.DefaultVersion)
		if err != nil {
			return err
		}
		return s.templates.updateRecord(c, t.ID, func(t *record.LaunchTemplate) error {
			t.DefaultVersion = v.Number
			after = *t
			return nil
		})
	}); err != nil {
		return nil, err
	}
	sc, err := scopeOf(ctx)
	view := s.templates.view(sc, after)
	return &ec2.ModifyLaunchTemplateOutput{LaunchTemplate: &view}, err
}

// DeleteLaunchTemplate deletes a launch template with all its versions.
func (s *Service) DeleteLaunchTemplate(ctx context.Context, in *ec2.DeleteLaunchTemplateInput) (
	*ec2.DeleteLaunchTemplateOutput, error) {
	var view types.LaunchTemplate
	for {
		var left int
		if err := s.applyChange(ctx, in.DryRun, func(c *change) error {
			t, err := s.templateNamed(c.scope, in.LaunchTemplateId, in.LaunchTemplateName)
			if err != nil {
				return err
			}
			view = s.templates.view(c.scope, t)
			rows, err := s.versions.List(c, store.Prefix(c.account, c.region, t.ID))
			if err != nil {
				return err
			}
			// The default version goes with the template itself, at last.
			slices.SortFunc(rows, func(a, b store.Row[record.LaunchTemplateVersion]) int {
				switch t.DefaultVersion {
				case a.Value.Number:
					return 1
				case b.Value.Number:
					return -1
				}
				return cmp.Compare(a.Key, b.Key)
			})
			now := rows[:min(len(rows), versionsPerChange)]
			for _, row := range now {
				c.add("version/"+row.Key, &pending{op: func() store.Op { return s.versions.DeleteOp(row) }})
			}
			if left = len(rows) - len(now); left > 0 {
				return nil
			}
			if _, err := s.templates.deleteRecord(c, t.ID); err != nil {
				return err
			}
			c.add("templatename/"+t.Name,
				&pending{op: func() store.Op {
					return s.templateNames.RemoveOp(store.Key(c.account, c.region,
						t.Name))
				}})
			return nil
		}); err != nil {
			return nil, err
		}
		if left == 0 {
			return &ec2.DeleteLaunchTemplateOutput{LaunchTemplate: &view}, nil
		}
	}
}
