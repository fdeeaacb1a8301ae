package nodegroup

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// ensureTemplateVersion makes the version of EKS's own launch template from which nodes as wanted are launched, or
// finds the one that there is, and writes down which. The description of a version says what went into it: none is made
// twice.
func (g *group) ensureTemplateVersion(ctx context.Context, want record.NodegroupTemplate) error {
	hash, err := g.templateHash(ctx, want)
	if err != nil {
		return err
	}
	if g.state.LaunchTemplateVersion != "" && g.state.TemplateHash == hash {
		return g.checkTemplate(ctx)
	}
	existing, err := g.findTemplate(ctx)
	if err != nil {
		return err
	}
	if existing == nil {
		if g.state.LaunchTemplateID != "" {
			return g.checkTemplate(ctx)
		}
		data, err := g.templateData(ctx, want)
		if err != nil {
			return err
		}
		made, err := g.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
			LaunchTemplateName: ptr(g.madeName()), LaunchTemplateData: data,
			VersionDescription: &hash,
			TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate,
				Tags: g.resourceTags()}},
		})
		if err != nil {
			return fmt.Errorf("create launch template %s: %w", g.madeName(), err)
		}
		crashTemplate.Here()
		existing = made.LaunchTemplate
	}
	id := aws.ToString(existing.LaunchTemplateId)
	version, err := g.findVersion(ctx, id, hash)
	if err != nil {
		return err
	}
	if version == "" {
		data, err := g.templateData(ctx, want)
		if err != nil {
			return err
		}
		made, err := g.ec2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: &id,
			LaunchTemplateData: data, VersionDescription: &hash})
		if err != nil {
			return fmt.Errorf("create a version of launch template %s: %w", id, err)
		}
		crashVersion.Here()
		version = strconv.FormatInt(aws.ToInt64(made.LaunchTemplateVersion.VersionNumber), 10)
	}
	g.state.LaunchTemplateID, g.state.LaunchTemplateVersion = id, version
	g.state.Template, g.state.TemplateHash = want, hash
	return g.saveState(ctx)
}

// templateHash returns a hash of all that nodes are made from and that can change: the certificate authorities of the
// cluster, once there has been another than the initial one.
func (g *group) templateHash(ctx context.Context, want record.NodegroupTemplate) (string, error) {
	plane, err := g.c.planes.Get(ctx, g.cluster.Key())
	if err != nil {
		return "", err
	}
	var authorities []byte
	if len(plane.Value.Authorities) > 0 {
		authorities = plane.Value.CertificateAuthority
	}
	text, err := json.Marshal(struct {
		Template    record.NodegroupTemplate
		Labels      map[string]string
		Taints      []ekstypes.Taint
		Authorities []byte `json:",omitempty"`
	}{want, g.row.Labels, g.row.Taints, authorities})
	sum := sha256.Sum256(text)
	return "eks:" + hex.EncodeToString(sum[:8]), err
}

// checkTemplate returns an error when EKS's launch template is gone.
func (g *group) checkTemplate(ctx context.Context) error {
	key := record.EC2Key(g.row.Account, g.row.Region, g.state.LaunchTemplateID)
	if _, err := record.LaunchTemplates(g.c.o.Store).Get(ctx, key); err != nil {
		if store.IgnoreNotFound(err) != nil {
			return err
		}
		return &problem{ekstypes.Issue{
			Code: ekstypes.NodegroupIssueCodeEc2LaunchTemplateNotFound,
			Message: ptr(
				"We couldn't find the EC2 launch template for your managed node group. You may be able to recreate a " +
					"launch template with the same settings to recover."),
			ResourceIds: []string{g.state.LaunchTemplateID},
		}}
	}
	return nil
}

// findTemplate returns EKS's launch template of the group, nil before there is one.
func (g *group) findTemplate(ctx context.Context) (*ec2types.LaunchTemplate, error) {
	out, err := g.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: []ec2types.Filter{
		{Name: aws.String("launch-template-name"), Values: []string{g.madeName()}},
	}})
	if err != nil {
		return nil, fmt.Errorf("find launch template %s: %w", g.madeName(), err)
	}
	if len(out.LaunchTemplates) == 0 {
		return nil, nil
	}
	return &out.LaunchTemplates[0], nil
}

// versionsPage is the number of launch template versions that are read at a time, the most that EC2 returns.
const versionsPage = 200

// findVersion returns the newest version of a launch template with a description, "" without one. Versions count that
// EKS has created: users who may add versions to the template, or make one of that name, must not choose what EKS
// launches.
func (g *group) findVersion(ctx context.Context, id, description string) (string, error) {
	newest := int64(0)
	// A template may have 10,000 versions, and a version 16 KiB of user data: the newest come first.
	pages := ec2.NewDescribeLaunchTemplateVersionsPaginator(g.ec2,
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &id, MaxResults: aws.Int32(versionsPage)})
	for newest == 0 && pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return "", fmt.Errorf("find the versions of launch template %s: %w", id, err)
		}
		for _, v := range out.LaunchTemplateVersions {
			if aws.ToString(v.VersionDescription) == description && g.isCreatedByEKS(aws.ToString(v.CreatedBy)) {
				newest = max(newest, aws.ToInt64(v.VersionNumber))
			}
		}
	}
	if newest == 0 {
		return "", nil
	}
	return strconv.FormatInt(newest, 10), nil
}

// isCreatedByEKS reports whether the ARN of a creator is of a session of ServiceLinkedRole, which nobody else can
// assume.
func (g *group) isCreatedByEKS(creator string) bool {
	session, err := arn.Parse(creator)
	return err == nil && session.Service == "sts" && session.AccountID == g.row.Account &&
		strings.HasPrefix(session.Resource, "assumed-role/"+ServiceLinkedRole+"/")
}

// templateData returns what nodes as wanted are launched from.
func (g *group) templateData(ctx context.Context, want record.NodegroupTemplate) (
	*ec2types.RequestLaunchTemplateData, error) {
	data := &ec2types.RequestLaunchTemplateData{}
	if want.LaunchTemplate != nil {
		users, err := g.usersTemplate(ctx, *want.LaunchTemplate)
		if err != nil {
			return nil, err
		}
		data = users
	}
	plane, err := g.c.planes.Get(ctx, g.cluster.Key())
	if err != nil {
		return nil, err
	}
	g.setSecurityGroups(data, plane.Value.ClusterSecurityGroupID)
	data.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: ptr(g.madeName())}
	data.TagSpecifications = g.tagSpecifications(data.TagSpecifications)
	if g.row.RemoteAccess != nil {
		data.KeyName = g.row.RemoteAccess.Ec2SshKey
	}
	if g.isCustomAMI() {
		return data, nil // the user's image, and the user's user data
	}
	image, err := g.findImage(want)
	if err != nil {
		return nil, err
	}
	data.ImageId = &image.ID
	if want.LaunchTemplate == nil {
		g.setDefaults(data, image)
	}
	labels := maps.Clone(g.row.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[groupLabel], labels["eks.amazonaws.com/nodegroup-image"] = g.row.Name, image.ID
	labels["eks.amazonaws.com/capacityType"] = string(g.row.CapacityType)
	if want.LaunchTemplate != nil {
		labels["eks.amazonaws.com/sourceLaunchTemplateId"] = aws.ToString(want.LaunchTemplate.Id)
		labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = aws.ToString(want.LaunchTemplate.Version)
	}
	users, err := base64.StdEncoding.DecodeString(aws.ToString(data.UserData))
	if err != nil {
		return nil, g.invalidTemplate(want, "User data is not valid base64.")
	}
	b := boot{
		Cluster: g.row.Cluster, Endpoint: plane.Value.Endpoint, Authority: plane.Value.CertificateAuthority,
		ServiceCIDR: g.cluster.ServiceIPv4CIDR,
		MaxPods:     g.maxPods(string(data.InstanceType)), Labels: labels, Taints: g.row.Taints,
	}
	if g.cluster.IPFamily == ekstypes.IpFamilyIpv6 {
		b.IPv6, b.ServiceCIDR, b.MaxPods = true, g.cluster.ServiceIPv6CIDR, 110
	}
	text, err := b.userData(image.Family, users)
	if err != nil {
		return nil, g.invalidTemplate(want, err.Error())
	}
	data.UserData = ptr(base64.StdEncoding.EncodeToString(text))
	return data, nil
}

// invalidTemplate returns what is wrong with the user's launch template.
func (g *group) invalidTemplate(want record.NodegroupTemplate, message string) error {
	id := g.row.Name
	if want.LaunchTemplate != nil {
		id = aws.ToString(want.LaunchTemplate.Id)
	}
	return &problem{ekstypes.Issue{Code: ekstypes.NodegroupIssueCodeEc2LaunchTemplateInvalidConfiguration,
		Message: &message, ResourceIds: []string{id}}}
}

// usersTemplate returns the data of a version of the user's launch template, all of it.
func (g *group) usersTemplate(ctx context.Context, spec ekstypes.LaunchTemplateSpecification) (
	*ec2types.RequestLaunchTemplateData, error) {
	out, err := g.ec2.DescribeLaunchTemplateVersions(ctx,
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: spec.Id,
			Versions: []string{aws.ToString(spec.Version)}})
	switch apierror.Code(err) {
	case "InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId.VersionNotFound",
		"InvalidLaunchTemplateName.NotFoundException":
		return nil, g.usersTemplateGone(spec)
	}
	if err != nil {
		return nil, fmt.Errorf("read launch template %s: %w", aws.ToString(spec.Id), err)
	}
	if len(out.LaunchTemplateVersions) == 0 {
		return nil, g.usersTemplateGone(spec)
	}
	// What is read has the members of what is written, by the names of both.
	text, err := json.Marshal(out.LaunchTemplateVersions[0].LaunchTemplateData)
	if err != nil {
		return nil, err
	}
	data := &ec2types.RequestLaunchTemplateData{}
	return data, json.Unmarshal(text, data)
}

func (g *group) usersTemplateGone(spec ekstypes.LaunchTemplateSpecification) error {
	return &problem{ekstypes.Issue{
		Code: ekstypes.NodegroupIssueCodeSourceEc2LaunchTemplateNotFound,
		Message: ptr(
			fmt.Sprintf("We couldn't find version %s of the source EC2 launch template for your managed node group.",
				aws.ToString(spec.Version))),
		ResourceIds: []string{aws.ToString(spec.Id)},
	}}
}

// setDefaults sets what EKS chooses when the user has no launch template.
func (g *group) setDefaults(data *ec2types.RequestLaunchTemplateData, image ami.Image) {
	data.BlockDeviceMappings = []ec2types.LaunchTemplateBlockDeviceMappingRequest{{
		DeviceName: ptr(image.FilesDevice()),
		Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: &g.row.DiskSize,
			VolumeType: ec2types.VolumeTypeGp3, DeleteOnTermination: ptr(true)},
	}}
	data.MetadataOptions = &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
		HttpPutResponseHopLimit: ptr(int32(2)), HttpTokens: ec2types.LaunchTemplateHttpTokensStateOptional}
	if image.Family != ami.AL2 {
		data.MetadataOptions.HttpTokens = ec2types.LaunchTemplateHttpTokensStateRequired
	}
}

// setSecurityGroups sets the cluster's security group and that of remote access, unless the user's template has
// security groups.
func (g *group) setSecurityGroups(data *ec2types.RequestLaunchTemplateData, cluster string) {
	groups := []string{cluster}
	if g.state.RemoteAccessGroup != "" {
		groups = append(groups, g.state.RemoteAccessGroup)
	}
	switch {
	case len(data.SecurityGroupIds) > 0 || len(data.SecurityGroups) > 0:
	case len(data.NetworkInterfaces) > 0:
		for i, n := range data.NetworkInterfaces {
			if len(n.Groups) == 0 {
				data.NetworkInterfaces[i].Groups = groups
			}
		}
	default:
		data.SecurityGroupIds = groups
	}
}

// resourceTags returns the tags of all that EKS makes for the group.
func (g *group) resourceTags() []ec2types.Tag {
	return []ec2types.Tag{{Key: aws.String(clusterTag), Value: &g.row.Cluster},
		{Key: aws.String(groupTag), Value: &g.row.Name}}
}

// tagSpecifications adds EKS's tags of instances and volumes to the user's.
func (g *group) tagSpecifications(
	users []ec2types.LaunchTemplateTagSpecificationRequest) []ec2types.LaunchTemplateTagSpecificationRequest {
	for _, kind := range []ec2types.ResourceType{ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume} {
		i := slices.IndexFunc(users, func(s ec2types.LaunchTemplateTagSpecificationRequest) bool {
			return s.ResourceType == kind
		})
		if i < 0 {
			i, users = len(users), append(users, ec2types.LaunchTemplateTagSpecificationRequest{ResourceType: kind})
		}
		for _, tag := range g.resourceTags() {
			users[i].Tags = slices.DeleteFunc(users[i].Tags, func(t ec2types.Tag) bool { return *t.Key == *tag.Key })
			users[i].Tags = append(users[i].Tags, tag)
		}
	}
	return users
}

// maxPods returns how many pods a node takes: as many as the least of its instance types has addresses for.
func (g *group) maxPods(templateType string) int {
	names := g.row.InstanceTypes
	if len(names) == 0 {
		names = []string{templateType}
	}
	least := 0
	for _, name := range names {
		t, ok := instancetype.Get(name)
		if !ok {
			return 0
		}
		n := t.MaxPods()
		if limit := 110; t.VCPU <= 30 {
			n = min(n, limit)
		} else {
			n = min(n, 250)
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}
