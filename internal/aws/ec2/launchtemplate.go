package ec2

import (
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// templateNamed is the launch template that a request names by its ID or its name.
func (s *Service) templateNamed(in scope, id, name *string) (record.LaunchTemplate, error) {
	switch asksID, asksName := aws.ToString(id) != "", aws.ToString(name) != ""; {
	case asksID && asksName:
		return record.LaunchTemplate{}, wire.Errorf("InvalidParameterCombination", "You may specify either a launch template ID or a launch template name, not both.")
	case asksName:
		row, err := s.templateNames.Get(in, store.Key(in.account, in.region, *name))
		if errors.Is(err, store.ErrNotFound) {
			return record.LaunchTemplate{}, wire.Errorf("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", *name)
		}
		if err != nil {
			return record.LaunchTemplate{}, err
		}
		return s.templates.value(in, &row.Value.TemplateID)
	case asksID:
		return s.templates.value(in, id)
	}
	return record.LaunchTemplate{}, wire.Errorf("MissingParameter", "Either a launch template ID or a launch template name must be specified.")
}

// templateAsked is the version of a launch template that a request asks for: a number, $Latest or $Default, which is also what is meant without.
func (s *Service) templateAsked(in scope, id, name, version *string) (record.LaunchTemplate, record.LaunchTemplateVersion, error) {
	t, err := s.templateNamed(in, id, name)
	if err != nil {
		return t, record.LaunchTemplateVersion{}, err
	}
	v, err := s.templateVersion(in, t, aws.ToString(version))
	return t, v, err
}

func (s *Service) templateVersion(in scope, t record.LaunchTemplate, version string) (record.LaunchTemplateVersion, error) {
	var number int64
	switch version {
	case "", "$Default":
		number = t.DefaultVersion
	case "$Latest":
		number = t.LatestVersion
	default:
		var err error
		if number, err = strconv.ParseInt(version, 10, 64); err != nil || number < 1 {
			return record.LaunchTemplateVersion{}, wire.Errorf("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", version, t.ID)
		}
	}
	row, err := s.versions.Get(in, record.LaunchTemplateVersionKey(in.account, in.region, t.ID, number))
	if errors.Is(err, store.ErrNotFound) {
		err = wire.Errorf("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", version, t.ID)
	}
	return row.Value, err
}

func (s *Service) templateKind() kind[record.LaunchTemplate, types.LaunchTemplate] {
	type v = types.LaunchTemplate
	return kind[record.LaunchTemplate, v]{
		naming: naming{
			resource: types.ResourceTypeLaunchTemplate, prefix: "lt-", noun: "launch template ID", param: "launchTemplateId",
			notFound: "InvalidLaunchTemplateId.NotFound", malformed: "InvalidLaunchTemplateId.Malformed",
			absent: "The specified launch template, with template ID %s, does not exist.",
		},
		table: record.LaunchTemplates(s.store),
		view: func(in scope, r record.LaunchTemplate) v {
			return v{
				CreateTime: aws.Time(r.CreatedAt), CreatedBy: aws.String(r.CreatedBy), DefaultVersionNumber: aws.Int64(r.DefaultVersion), LatestVersionNumber: aws.Int64(r.LatestVersion),
				LaunchTemplateId: aws.String(r.ID), LaunchTemplateName: aws.String(r.Name), Operator: &types.OperatorResponse{Managed: aws.Bool(false)}, Tags: s.tagsOf(in, r.ID),
			}
		},
		tagged: func(x v) []types.Tag { return x.Tags },
		filters: filters[v]{
			"create-time":          at(func(x v) *time.Time { return x.CreateTime }),
			"launch-template-name": text(func(x v) *string { return x.LaunchTemplateName }),
		},
	}
}
