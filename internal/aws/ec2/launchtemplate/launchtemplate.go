package launchtemplate

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

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
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

func (s *Service) newTemplateView() resource.View[record.LaunchTemplate, types.LaunchTemplate] {
	type v = types.LaunchTemplate
	return resource.View[record.LaunchTemplate, v]{
		Kind: s.LaunchTemplates,
		Show: func(sc resource.Scope, r record.LaunchTemplate) v {
			return v{
				CreateTime: aws.Time(r.CreatedAt), CreatedBy: aws.String(r.CreatedBy),
				DefaultVersionNumber: aws.Int64(r.DefaultVersion), LatestVersionNumber: aws.Int64(r.LatestVersion),
				LaunchTemplateId: aws.String(r.ID), LaunchTemplateName: aws.String(r.Name),
				Operator: &types.OperatorResponse{Managed: aws.Bool(false)}, Tags: s.ListTags(sc, r.ID),
			}
		},
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"create-time":          resource.TimeFilter(func(x v) *time.Time { return x.CreateTime }),
			"launch-template-name": resource.StringFilter(func(x v) *string { return x.LaunchTemplateName }),
		},
	}
}

// Requested returns the version of a launch template that a request asks for: a number, $Latest or $Default, which is
// also what is meant without.
func Requested(s *resource.Records, sc resource.Scope, id, name, version *string) (
	record.LaunchTemplate, record.LaunchTemplateVersion, error) {
	t, err := s.RequestedLaunchTemplate(sc, id, name)
	if err != nil {
		return t, record.LaunchTemplateVersion{}, err
	}
	v, err := templateVersion(s, sc, t, aws.ToString(version))
	return t, v, err
}

func templateVersion(
	s *resource.Records, sc resource.Scope, t record.LaunchTemplate, version string,
) (record.LaunchTemplateVersion, error) {
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
	row, err := s.LaunchTemplateVersions.Get(sc, record.LaunchTemplateVersionKey(sc.Account, sc.Region, t.ID, number))
	if errors.Is(err, store.ErrNotFound) {
		err = wire.Errorf("InvalidLaunchTemplateId.VersionNotFound",
			"Could not find the specified version %s for the launch template with ID %s.", version, t.ID)
	}
	return row.Value, err
}

var templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)

// launchTemplateHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) launchTemplateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateLaunchTemplate, resource.Creating[ec2.CreateLaunchTemplateInput](s.Records,
			types.ResourceTypeLaunchTemplate)),
		wire.Handle(s.DescribeLaunchTemplates, resource.OnRegion),
		wire.Handle(s.ModifyLaunchTemplate, resource.Touching[ec2.ModifyLaunchTemplateInput](s.Records)),
		wire.Handle(s.DeleteLaunchTemplate, resource.Touching[ec2.DeleteLaunchTemplateInput](s.Records)),
	}
}

// CreateLaunchTemplate makes a launch template with its first version.
func (s *Service) CreateLaunchTemplate(ctx context.Context, in *ec2.CreateLaunchTemplateInput) (
	*ec2.CreateLaunchTemplateOutput, error) {
	out, err := s.templateView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications,
		Token: in.ClientToken, Request: in}, func(c *resource.Change, id string) error {
		name := aws.ToString(in.LaunchTemplateName)
		if !templateName.MatchString(name) {
			return wire.Errorf("InvalidLaunchTemplateName.MalformedException",
				"A launch template name must be between 3 and 128 characters, and may contain letters, numbers, and "+
					"the following characters: - ( ) . / _.")
		}
		if in.Operator != nil {
			return resource.Unsupported("Operator")
		}
		claim := store.Key(c.Account, c.Region, name)
		if _, err := s.LaunchTemplateNames.Get(c, claim); err == nil {
			return wire.Errorf("InvalidLaunchTemplateName.AlreadyExistsException",
				"Launch template name already in use.")
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := s.LaunchTemplates.CheckQuota(c.Scope, maxTemplates, nil, "LaunchTemplateLimitExceeded",
			"launch templates"); err != nil {
			return err
		}
		t := record.LaunchTemplate{EC2Resource: c.NewResource(id, in.ClientToken), Name: name, CreatedBy: c.Caller.ARN,
			DefaultVersion: 1}
		if _, err := newVersion(c, &t, in.VersionDescription, in.LaunchTemplateData, nil, nil); err != nil {
			return err
		}
		c.Add("templatename/"+name, func() store.Op {
			return s.LaunchTemplateNames.CreateOp(claim,
				record.LaunchTemplateName{TemplateID: id})
		})
		s.LaunchTemplates.CreateRecord(c, t)
		return nil
	})
	return &ec2.CreateLaunchTemplateOutput{LaunchTemplate: out}, err
}

// DescribeLaunchTemplates lists launch templates.
func (s *Service) DescribeLaunchTemplates(ctx context.Context, in *ec2.DescribeLaunchTemplatesInput) (
	*ec2.DescribeLaunchTemplatesOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(in.LaunchTemplateIds)
	for _, name := range in.LaunchTemplateNames {
		t, err := s.RequestedLaunchTemplate(sc, nil, &name)
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
	found, next, err := s.templateView.Describe(
		ctx,
		resource.Query{Operation: "DescribeLaunchTemplates", DryRun: in.DryRun, IDs: ids, Filters: in.Filters,
			Max: in.MaxResults, Token: in.NextToken},
	)
	if found == nil {
		found = []types.LaunchTemplate{}
	}
	return &ec2.DescribeLaunchTemplatesOutput{LaunchTemplates: found, NextToken: next}, err
}

// ModifyLaunchTemplate makes another version the default one.
func (s *Service) ModifyLaunchTemplate(ctx context.Context, in *ec2.ModifyLaunchTemplateInput) (
	*ec2.ModifyLaunchTemplateOutput, error) {
	var after record.LaunchTemplate
	if err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		t, err := s.RequestedLaunchTemplate(c.Scope, in.LaunchTemplateId, in.LaunchTemplateName)
		if err != nil {
			return err
		}
		if aws.ToString(in.DefaultVersion) == "" {
			return resource.MissingParameter("SetDefaultVersion")
		}
		v, err := templateVersion(s.Records, c.Scope, t, *in.DefaultVersion)
		if err != nil {
			return err
		}
		return s.LaunchTemplates.UpdateRecord(c, t.ID, func(t *record.LaunchTemplate) error {
			t.DefaultVersion = v.Number
			after = *t
			return nil
		})
	}); err != nil {
		return nil, err
	}
	sc, err := resource.ScopeOf(ctx)
	view := s.templateView.Show(sc, after)
	return &ec2.ModifyLaunchTemplateOutput{LaunchTemplate: &view}, err
}

// DeleteLaunchTemplate deletes a launch template with all its versions.
func (s *Service) DeleteLaunchTemplate(ctx context.Context, in *ec2.DeleteLaunchTemplateInput) (
	*ec2.DeleteLaunchTemplateOutput, error) {
	var view types.LaunchTemplate
	for {
		var left int
		if err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
			t, err := s.RequestedLaunchTemplate(c.Scope, in.LaunchTemplateId, in.LaunchTemplateName)
			if err != nil {
				return err
			}
			view = s.templateView.Show(c.Scope, t)
			rows, err := s.LaunchTemplateVersions.List(c, store.Prefix(c.Account, c.Region, t.ID))
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
				c.Add("version/"+row.Key, func() store.Op { return s.LaunchTemplateVersions.DeleteOp(row) })
			}
			if left = len(rows) - len(now); left > 0 {
				return nil
			}
			if _, err := s.LaunchTemplates.DeleteRecord(c, t.ID); err != nil {
				return err
			}
			c.Add("templatename/"+t.Name,
				func() store.Op {
					return s.LaunchTemplateNames.RemoveOp(store.Key(c.Account, c.Region,
						t.Name))
				})
			return nil
		}); err != nil {
			return nil, err
		}
		if left == 0 {
			return &ec2.DeleteLaunchTemplateOutput{LaunchTemplate: &view}, nil
		}
	}
}

// TaggableTypes are the types of resources that a launch can tag.
var TaggableTypes = []types.ResourceType{
	types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface,
	types.ResourceTypeSpotInstancesRequest,
}
