package nodegroup

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/kubernetes"
)

// versionHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) versionHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.UpdateNodegroupVersion, func(
			ctx context.Context, action string, in *eks.UpdateNodegroupVersionInput,
		) ([]wire.Target, error) {
			return s.OnNodegroup(ctx, action, in.ClusterName, in.NodegroupName)
		}),
	}
}

// UpdateNodegroupVersion replaces a node group's nodes with nodes of another version of Kubernetes, of the image, or of
// the user's launch template. Without any of them the group follows its cluster, with the newest image.
// https://docs.aws.amazon.com/eks/latest/userguide/update-managed-node-group.html
func (s *Service) UpdateNodegroupVersion(
	ctx context.Context, in *eks.UpdateNodegroupVersionInput,
) (*eks.UpdateNodegroupVersionOutput, error) {
	g := exception.About{Cluster: aws.ToString(in.ClusterName), Nodegroup: aws.ToString(in.NodegroupName)}
	update, err := s.startUpdate(ctx, change{
		group: g, token: in.ClientRequestToken, request: in, kind: types.UpdateTypeVersionUpdate,
		apply: func(n *record.Nodegroup, c record.Cluster, _ record.NodegroupState, u *record.Update) error {
			before := n.Template
			template, err := s.nextTemplate(ctx, g, *n, in.LaunchTemplate)
			if err != nil {
				return err
			}
			if template != nil {
				n.Template.LaunchTemplate = &template.spec
			}
			if err := nextImage(g, n, c, template, in); err != nil {
				return err
			}
			if err := s.checkLaunch(ctx, g, *n, template); err != nil {
				return err
			}
			if n.Template.Version != "" {
				u.Params = append(
					u.Params,
					resource.UpdateParam(types.UpdateParamTypeVersion, n.Template.Version),
					resource.UpdateParam(types.UpdateParamTypeReleaseVersion, n.Template.ReleaseVersion),
				)
			}
			if template != nil {
				u.Params = append(
					u.Params,
					resource.UpdateParam(types.UpdateParamTypeLaunchTemplateName, *template.spec.Name),
					resource.UpdateParam(types.UpdateParamTypeLaunchTemplateVersion, *template.spec.Version),
				)
			}
			u.PreviousTemplate, u.Force = &before, in.Force
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &eks.UpdateNodegroupVersionOutput{Update: update}, nil
}

// nextTemplate returns the version of a group's launch template that a request asks for; nil when it asks for none. A
// group cannot change its launch template, nor what the template decides: whose image it uses, and whose instance
// types.
func (s *Service) nextTemplate(
	ctx context.Context, g exception.About, n record.Nodegroup, asked *types.LaunchTemplateSpecification,
) (*usersTemplate, error) {
	own := n.Template.LaunchTemplate
	if asked == nil {
		if n.AMIType == types.AMITypesCustom {
			return nil, g.InvalidParameter("Launch template details can't be null for Custom ami type node group")
		}
		return nil, nil
	}
	if own == nil {
		return nil, g.InvalidParameter(
			"launchTemplate can't be specified for nodegroup %s, which was created without a launch template: create "+
				"a nodegroup with it instead",
			n.Name,
		)
	}
	template, err := s.usersTemplate(ctx, g, asked)
	if err != nil {
		return nil, err
	}
	switch custom := n.AMIType == types.AMITypesCustom; {
	case *template.spec.Id != *own.Id:
		return nil, g.InvalidParameter(
			"You cannot specify a different launch template than the one that the nodegroup was created with: %s (%s) "+
				"was requested, and nodegroup %s has %s (%s)",
			*template.spec.Name,
			*template.spec.Id,
			n.Name,
			*own.Name,
			*own.Id,
		)
	case custom && template.image() == "":
		return nil, g.InvalidParameter(
			"You must specify an image id within the launch template, since your nodegroup is configured to use a " +
				"custom AMI.",
		)
	case !custom && template.image() != "":
		return nil, g.InvalidParameter(
			"You cannot specify an image id within the launch template, since your nodegroup is configured to use an " +
				"EKS optimized AMI.",
		)
	case len(n.InstanceTypes) > 0 && template.instanceType() != "":
		return nil, g.InvalidRequest("Cannot specify instance types in launch template and API request")
	case len(n.InstanceTypes) == 0 && template.instanceType() == "":
		return nil, g.InvalidParameter(
			"You must specify an instance type within the launch template, since your nodegroup was created without " +
				"instance types.",
		)
	case template.instanceType() != "":
		return template, checkInstanceTypes(g, n.AMIType, []string{template.instanceType()})
	}
	return template, nil
}

// nextImage decides what the nodes are to run after a version update.
func nextImage(
	g exception.About, n *record.Nodegroup, c record.Cluster, template *usersTemplate, in *eks.UpdateNodegroupVersionInput,
) error {
	version, release := aws.ToString(in.Version), aws.ToString(in.ReleaseVersion)
	if n.AMIType == types.AMITypesCustom {
		n.Template.ReleaseVersion = template.image()
		return noVersions(g, version, release)
	}
	now := n.Template
	switch {
	case version == "" && release == "":
		version = c.Version
	case version == "":
		version = now.Version // a release is one of the version that the nodes have
	}
	if err := nodeVersion(g, version, c.Version); err != nil {
		return err
	}
	if err := checkAMIType(g, n.AMIType, version); err != nil {
		return err
	}
	if kubernetes.MinorNumber(version) < kubernetes.MinorNumber(now.Version) {
		return g.InvalidParameter(
			"Nodegroup %s can't be rolled back to an earlier Kubernetes version: %s was requested, and it has %s",
			n.Name, version, now.Version,
		)
	}
	image, err := nodeRelease(g, n.Region, n.AMIType, version, release)
	if err != nil {
		return err
	}
	if all := releases(n.Region, n.AMIType, version); version == now.Version &&
		position(all, image.Release) > position(all, now.ReleaseVersion) {
		return g.InvalidParameter(
			"Nodegroup %s can't be rolled back to an earlier release version: %s was requested, and it has %s",
			n.Name, image.Release, now.ReleaseVersion,
		)
	}
	n.Template.Version, n.Template.ReleaseVersion = version, image.Release
	return nil
}

// position returns the index of a release among images, which are sorted newest first; the length, for one that is not
// among them any more.
func position(images []ami.Image, release string) int {
	i := slices.IndexFunc(images, func(i ami.Image) bool { return i.Release == release })
	if i < 0 {
		return len(images)
	}
	return i
}

// TooOldFor returns the names of a cluster's node groups whose nodes could not follow it to a minor version.
// https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html
func (s *Service) TooOldFor(ctx context.Context, version string, c record.Cluster) (string, error) {
	return s.namesOf(ctx, c, func(has int) bool { return has < kubernetes.MinorNumber(version)-oldestNode })
}

// TooNewFor returns the names of a cluster's node groups whose nodes are newer than a minor version, which no kubelet
// may be.
func (s *Service) TooNewFor(ctx context.Context, version string, c record.Cluster) (string, error) {
	return s.namesOf(ctx, c, func(has int) bool { return has > kubernetes.MinorNumber(version) })
}

// namesOf returns the names of a cluster's node groups whose nodes have a minor version that meets a condition.
func (s *Service) namesOf(ctx context.Context, c record.Cluster, is func(minor int) bool) (string, error) {
	groups, err := s.NodegroupsOf(ctx, c)
	if err != nil {
		return "", err
	}
	var names []string
	for _, n := range groups {
		state, last, err := s.observe(ctx, n)
		if err != nil {
			return "", err
		}
		if has := madeFrom(n, state, last).Version; has != "" && is(kubernetes.MinorNumber(has)) {
			names = append(names, n.Name)
		}
	}
	return strings.Join(names, ", "), nil
}
