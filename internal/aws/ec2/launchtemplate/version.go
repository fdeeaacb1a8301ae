package launchtemplate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/image"
	"github.com/coracle-eks/coracle/internal/aws/ec2/offering"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// newVersion adds the next version to a template, which the caller writes: what source has, changed by data.
func newVersion(
	c *resource.Change, t *record.LaunchTemplate, description *string, data *types.RequestLaunchTemplateData,
	source *record.LaunchTemplateVersion, token *string,
) (record.LaunchTemplateVersion, error) {
	var v record.LaunchTemplateVersion
	if data == nil {
		return v, resource.MissingParameter("LaunchTemplateData")
	}
	if utf8.RuneCountInString(aws.ToString(description)) > 255 {
		return v, resource.InvalidValue(*description, "VersionDescription", "Descriptions are up to 255 characters long.")
	}
	merged := *data
	if source != nil {
		var err error
		if merged, err = overlay(source.Data, *data); err != nil {
			return v, err
		}
	}
	if err := checkTemplate(c, merged); err != nil {
		return v, err
	}
	if t.LatestVersion >= maxTemplateVersions {
		return v, wire.Errorf("LaunchTemplateVersionLimitExceeded",
			"The launch template %s has had %d versions, which is the most that it can have.", t.ID,
			maxTemplateVersions)
	}
	t.LatestVersion++
	v = record.LaunchTemplateVersion{
		TemplateID: t.ID, Number: t.LatestVersion, Description: aws.ToString(description), CreatedBy: c.Caller.ARN,
		CreatedAt: c.Now().UTC(), Data: merged, ClientToken: aws.ToString(token),
	}
	key := record.LaunchTemplateVersionKey(c.Account, c.Region, t.ID, v.Number)
	c.Add("version/"+key, func() store.Op { return c.LaunchTemplateVersions.CreateOp(key, v) })
	return v, nil
}

// overlay returns base with the given members of over in place of its own.
func overlay(base, over types.RequestLaunchTemplateData) (types.RequestLaunchTemplateData, error) {
	var all, given map[string]json.RawMessage
	for _, x := range []struct {
		data types.RequestLaunchTemplateData
		into *map[string]json.RawMessage
	}{{base, &all}, {over, &given}} {
		text, err := json.Marshal(x.data)
		if err != nil {
			return base, fmt.Errorf("merge launch template versions: %w", err)
		}
		if err := json.Unmarshal(text, x.into); err != nil {
			return base, fmt.Errorf("merge launch template versions: %w", err)
		}
	}
	for name, value := range given {
		if text := string(value); text != "null" && text != `""` && text != "[]" {
			all[name] = value
		}
	}
	// One replaces the other, although their names differ.
	if over.InstanceType != "" {
		delete(all, "InstanceRequirements")
	} else if over.InstanceRequirements != nil {
		delete(all, "InstanceType")
	}
	text, err := json.Marshal(all)
	if err != nil {
		return base, fmt.Errorf("merge launch template versions: %w", err)
	}
	var merged types.RequestLaunchTemplateData
	return merged, json.Unmarshal(text, &merged)
}

// templateTaggable are the types of resources that a launch from a template can tag.
var templateTaggable = slices.Concat(TaggableTypes, []types.ResourceType{types.ResourceTypeElasticGpu})

// checkTemplate refuses what AWS refuses when a template is made. Whether its images, groups and subnets exist shows at
// the launch.
func checkTemplate(c *resource.Change, data types.RequestLaunchTemplateData) error {
	if _, err := DecodeUserData(data.UserData); err != nil {
		return err
	}
	if data.InstanceType != "" && data.InstanceRequirements != nil {
		return wire.Errorf("InvalidParameterCombination",
			"You can specify either InstanceType or InstanceRequirements, but not both.")
	}
	if r := data.InstanceRequirements; r != nil {
		if _, err := offering.ReadRequirements(r); err != nil {
			return err
		}
	}
	if p := data.IamInstanceProfile; p != nil && p.Arn != nil && p.Name != nil {
		return wire.Errorf("InvalidParameterCombination",
			"The parameter 'iamInstanceProfile.name' may not be used in combination with 'iamInstanceProfile.arn'")
	}
	if id := aws.ToString(data.ImageId); id != "" && len(id) > 4 && id[:4] != "ami-" && !image.IsAlias(id) {
		return wire.Errorf("InvalidAMIID.Malformed", "Invalid id: \"%s\" (expecting \"ami-...\")", id)
	}
	if m := data.MetadataOptions; m != nil {
		var options record.InstanceMetadataOptions
		if err := EditMetadataOptions(&options, types.InstanceMetadataEndpointState(m.HttpEndpoint),
			types.HttpTokensState(m.HttpTokens), m.HttpPutResponseHopLimit,
			types.InstanceMetadataTagsState(m.InstanceMetadataTags),
			types.InstanceMetadataProtocolState(m.HttpProtocolIpv6)); err != nil {
			return err
		}
	}
	if err := resource.CheckEnum(data.InstanceInitiatedShutdownBehavior, "instanceInitiatedShutdownBehavior"); err != nil {
		return err
	}
	for _, spec := range data.TagSpecifications {
		if !slices.Contains(templateTaggable, spec.ResourceType) {
			return resource.Invalid("'%s' is not a valid taggable resource type for this operation.", spec.ResourceType)
		}
		if err := c.CheckTags(spec.Tags); err != nil {
			return err
		}
	}
	return nil
}

// viewVersion shows a version. What shows of its data has the members of what was asked for.
func (s *Service) viewVersion(t record.LaunchTemplate, r record.LaunchTemplateVersion) (
	types.LaunchTemplateVersion, error) {
	v := types.LaunchTemplateVersion{
		CreateTime: aws.Time(r.CreatedAt), CreatedBy: aws.String(r.CreatedBy),
		DefaultVersion: aws.Bool(r.Number == t.DefaultVersion), LaunchTemplateId: aws.String(t.ID),
		LaunchTemplateName: aws.String(t.Name), Operator: &types.OperatorResponse{Managed: aws.Bool(false)},
		VersionDescription: resource.OrNil(r.Description), VersionNumber: aws.Int64(r.Number),
		LaunchTemplateData: &types.ResponseLaunchTemplateData{},
	}
	text, err := json.Marshal(r.Data)
	if err == nil {
		err = json.Unmarshal(text, v.LaunchTemplateData)
	}
	if err != nil {
		return v, fmt.Errorf("show version %d of launch template %s: %w", r.Number, t.ID, err)
	}
	return v, nil
}

// launchTemplateVersionHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) launchTemplateVersionHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateLaunchTemplateVersion, resource.Touching[ec2.CreateLaunchTemplateVersionInput](s.Records)),
		wire.Handle(s.DescribeLaunchTemplateVersions, resource.OnRegion),
		wire.Handle(s.DeleteLaunchTemplateVersions, resource.Touching[ec2.DeleteLaunchTemplateVersionsInput](s.Records)),
		wire.Handle(s.GetLaunchTemplateData, resource.Touching[ec2.GetLaunchTemplateDataInput](s.Records)),
	}
}

// versionsByToken finds versions by their template and the client token of the request that created them: stacks send
// one each time, and a template may have many large versions.
func (s *Service) versionsByToken() store.Index[record.LaunchTemplateVersion] {
	return store.NewIndex(s.LaunchTemplateVersions, "token", func(v record.LaunchTemplateVersion) string {
		if v.ClientToken == "" {
			return ""
		}
		return store.Key(v.TemplateID, v.ClientToken)
	})
}

// CreateLaunchTemplateVersion adds a version to a launch template.
func (s *Service) CreateLaunchTemplateVersion(ctx context.Context, in *ec2.CreateLaunchTemplateVersionInput) (
	*ec2.CreateLaunchTemplateVersionOutput, error) {
	var t record.LaunchTemplate
	var v record.LaunchTemplateVersion
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) (err error) {
		if t, err = s.RequestedLaunchTemplate(c.Scope, in.LaunchTemplateId, in.LaunchTemplateName); err != nil {
			return err
		}
		hash := wire.Fingerprint(in)
		if token := aws.ToString(in.ClientToken); token != "" {
			rows, err := s.versionsByToken().List(c, store.Key(t.ID, token))
			if err != nil {
				return err
			}
			for _, row := range rows {
				if again, err := wire.Repeated(c, in.ClientToken, hash, row.Value.ClientToken,
					row.Value.RequestHash); again || err != nil {
					v = row.Value
					return err
				}
			}
		}
		var source *record.LaunchTemplateVersion
		if aws.ToString(in.SourceVersion) != "" {
			found, err := templateVersion(s.Records, c.Scope, t, *in.SourceVersion)
			if err != nil {
				return err
			}
			source = &found
		}
		return s.LaunchTemplates.UpdateRecord(c, t.ID, func(now *record.LaunchTemplate) error {
			if v, err = newVersion(c, now, in.VersionDescription, in.LaunchTemplateData, source,
				in.ClientToken); err != nil {
				return err
			}
			if v.ClientToken != "" {
				v.RequestHash = hash
				key := record.LaunchTemplateVersionKey(c.Account, c.Region, t.ID, v.Number)
				c.Add("version/"+key, func() store.Op { return s.LaunchTemplateVersions.CreateOp(key, v) })
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	view, err := s.viewVersion(t, v)
	return &ec2.CreateLaunchTemplateVersionOutput{LaunchTemplateVersion: &view}, err
}

// templateRow is a version of a launch template.
type templateRow struct {
	template record.LaunchTemplate
	version  record.LaunchTemplateVersion
}

// DescribeLaunchTemplateVersions lists versions of one launch template, the newest first, or the latest or default ones
// of all.
func (s *Service) DescribeLaunchTemplateVersions(ctx context.Context, in *ec2.DescribeLaunchTemplateVersionsInput) (
	*ec2.DescribeLaunchTemplateVersionsOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	var templates []record.LaunchTemplate
	if in.LaunchTemplateId == nil && in.LaunchTemplateName == nil {
		if len(in.Versions) == 0 || slices.ContainsFunc(in.Versions, func(v string) bool {
			return v != "$Latest" &&
				v != "$Default"
		}) {
			return nil, wire.Errorf("MissingParameter",
				"Either a launch template ID or a launch template name must be specified, unless the versions are "+
					"$Latest or $Default.")
		}
		templates, err = s.LaunchTemplates.List(sc, nil)
	} else {
		var t record.LaunchTemplate
		t, err = s.RequestedLaunchTemplate(sc, in.LaunchTemplateId, in.LaunchTemplateName)
		templates = []record.LaunchTemplate{t}
	}
	if err != nil {
		return nil, err
	}
	least, most, err := versionRange(in)
	if err != nil {
		return nil, err
	}
	var asked []resource.Item[templateRow]
	for _, t := range templates {
		rows, err := s.versionsAsked(sc, t, in.Versions)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if r.Number < least || r.Number > most {
				continue
			}
			asked = append(asked, resource.Item[templateRow]{ID: t.ID + " " + strconv.FormatInt(1e10-r.Number, 10),
				View: templateRow{t, r}})
		}
	}
	view := func(r templateRow) (types.LaunchTemplateVersion, error) {
		v, err := s.viewVersion(r.template, r.version)
		if err != nil {
			return v, err
		}
		if id := v.LaunchTemplateData.ImageId; aws.ToBool(in.ResolveAlias) && id != nil && image.IsAlias(*id) {
			image, err := image.Requested(sc, id)
			if err != nil {
				return v, err
			}
			v.LaunchTemplateData.ImageId = aws.String(image.ID)
		}
		return v, nil
	}
	query := resource.Query{Operation: "DescribeLaunchTemplateVersions", DryRun: in.DryRun, Filters: in.Filters,
		Max: in.MaxResults, Token: in.NextToken}
	var found []types.LaunchTemplateVersion
	var next *string
	if len(in.Filters) == 0 { // only what is on the page is shown: a version is large
		var page []templateRow
		page, next, err = resource.DescribeItems[templateRow](ctx, query, asked, nil, nil)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			v, err := view(r)
			if err != nil {
				return nil, err
			}
			found = append(found, v)
		}
	} else {
		items := make([]resource.Item[types.LaunchTemplateVersion], len(asked))
		for i, a := range asked {
			items[i].ID = a.ID
			if items[i].View, err = view(a.View); err != nil {
				return nil, err
			}
		}
		found, next, err = resource.DescribeItems(ctx, query, items, versionFilters, nil)
	}
	if found == nil {
		found = []types.LaunchTemplateVersion{}
	}
	return &ec2.DescribeLaunchTemplateVersionsOutput{LaunchTemplateVersions: found, NextToken: next}, err
}

func versionRange(in *ec2.DescribeLaunchTemplateVersionsInput) (least, most int64, err error) {
	least, most = 1, 1<<62
	for _, bound := range []struct {
		text *string
		into *int64
		name string
	}{{in.MinVersion, &least, "MinVersion"}, {in.MaxVersion, &most, "MaxVersion"}} {
		if aws.ToString(bound.text) == "" {
			continue
		}
		if len(in.Versions) > 0 {
			return 0, 0, wire.Errorf("InvalidParameterCombination",
				"The parameter %s cannot be used with the parameter LaunchTemplateVersion", bound.name)
		}
		if *bound.into, err = strconv.ParseInt(*bound.text, 10, 64); err != nil {
			return 0, 0, resource.InvalidValue(*bound.text, bound.name, "")
		}
	}
	return least, most, nil
}

// versionsAsked returns the versions of a template that a request names, or all, newest first.
func (s *Service) versionsAsked(
	sc resource.Scope, t record.LaunchTemplate, wanted []string,
) ([]record.LaunchTemplateVersion, error) {
	var found []record.LaunchTemplateVersion
	if len(wanted) == 0 {
		rows, err := s.LaunchTemplateVersions.List(sc, store.Prefix(sc.Account, sc.Region, t.ID))
		for _, row := range slices.Backward(rows) {
			found = append(found, row.Value)
		}
		return found, err
	}
	seen := map[int64]bool{}
	for _, w := range wanted {
		v, err := templateVersion(s.Records, sc, t, w)
		if err != nil {
			return nil, err
		}
		if !seen[v.Number] {
			found = append(found, v)
		}
		seen[v.Number] = true
	}
	slices.SortFunc(found, func(a, b record.LaunchTemplateVersion) int { return int(b.Number - a.Number) })
	return found, nil
}

var versionFilters = func() resource.Filters[types.LaunchTemplateVersion] {
	type v = types.LaunchTemplateVersion
	type metadata = types.LaunchTemplateInstanceMetadataOptions
	of := func(member func(metadata) string) func(v) []string {
		return func(x v) []string {
			if m := x.LaunchTemplateData.MetadataOptions; m != nil && member(*m) != "" {
				return []string{member(*m)}
			}
			return nil
		}
	}
	none := func(v) []string { return nil }
	return resource.Filters[v]{
		"create-time":        resource.TimeFilter(func(x v) *time.Time { return x.CreateTime }),
		"ebs-optimized":      resource.BoolFilter(func(x v) *bool { return x.LaunchTemplateData.EbsOptimized }),
		"http-endpoint":      of(func(m metadata) string { return string(m.HttpEndpoint) }),
		"http-protocol-ipv4": none,
		"http-tokens":        of(func(m metadata) string { return string(m.HttpTokens) }),
		"iam-instance-profile": func(x v) []string {
			if p := x.LaunchTemplateData.IamInstanceProfile; p != nil && p.Arn != nil {
				return []string{*p.Arn}
			}
			return nil
		},
		"image-id": resource.StringFilter(func(x v) *string { return x.LaunchTemplateData.ImageId }),
		"instance-type": resource.EnumFilter(
			func(x v) types.InstanceType { return x.LaunchTemplateData.InstanceType }),
		"is-default-version":        resource.BoolFilter(func(x v) *bool { return x.DefaultVersion }),
		"kernel-id":                 resource.StringFilter(func(x v) *string { return x.LaunchTemplateData.KernelId }),
		"license-configuration-arn": none,
		"network-card-index": func(x v) []string {
			return resource.CollectValues(x.LaunchTemplateData.NetworkInterfaces,
				func(n types.LaunchTemplateInstanceNetworkInterfaceSpecification) *string {
					return aws.String(resource.Decimal(int(aws.ToInt32(n.NetworkCardIndex))))
				})
		},
		"ram-disk-id": resource.StringFilter(func(x v) *string { return x.LaunchTemplateData.RamDiskId }),
	}
}()

// DeleteLaunchTemplateVersions deletes versions, but not the default one.
func (s *Service) DeleteLaunchTemplateVersions(ctx context.Context, in *ec2.DeleteLaunchTemplateVersionsInput) (
	*ec2.DeleteLaunchTemplateVersionsOutput, error) {
	var out *ec2.DeleteLaunchTemplateVersionsOutput
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		out = &ec2.DeleteLaunchTemplateVersionsOutput{
			SuccessfullyDeletedLaunchTemplateVersions:   []types.DeleteLaunchTemplateVersionsResponseSuccessItem{},
			UnsuccessfullyDeletedLaunchTemplateVersions: []types.DeleteLaunchTemplateVersionsResponseErrorItem{},
		}
		t, err := s.RequestedLaunchTemplate(c.Scope, in.LaunchTemplateId, in.LaunchTemplateName)
		if err != nil {
			return err
		}
		if len(in.Versions) == 0 {
			return resource.MissingParameter("LaunchTemplateVersion")
		}
		if len(in.Versions) > versionsPerChange {
			return resource.Invalid("At most %d versions can be deleted in one call.", versionsPerChange)
		}
		// Nobody may make one of them the default meanwhile.
		if err := s.LaunchTemplates.ClaimRecord(c, t.ID); err != nil {
			return err
		}
		for _, w := range in.Versions {
			v, err := templateVersion(s.Records, c.Scope, t, w)
			number, _ := strconv.ParseInt(w, 10, 64)
			refused := &types.ResponseError{}
			var unknown *wire.Error
			switch {
			case errors.As(err, &unknown):
				refused.Code, refused.Message = types.LaunchTemplateErrorCodeLaunchTemplateVersionDoesNotExist,
					aws.String(unknown.Message)
			case err != nil:
				return err
			case v.Number == t.DefaultVersion:
				number = v.Number
				refused.Code, refused.Message = types.LaunchTemplateErrorCodeUnexpectedError,
					aws.String(
						"Cannot delete the default version of a launch template. Make another version the default "+
							"one first.")
			default:
				key := record.LaunchTemplateVersionKey(c.Account, c.Region, t.ID, v.Number)
				c.Add("version/"+key, func() store.Op { return s.LaunchTemplateVersions.RemoveOp(key) })
				out.SuccessfullyDeletedLaunchTemplateVersions = append(out.SuccessfullyDeletedLaunchTemplateVersions,
					types.DeleteLaunchTemplateVersionsResponseSuccessItem{
						LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.Name),
						VersionNumber: aws.Int64(v.Number),
					})
				continue
			}
			out.UnsuccessfullyDeletedLaunchTemplateVersions = append(out.UnsuccessfullyDeletedLaunchTemplateVersions,
				types.DeleteLaunchTemplateVersionsResponseErrorItem{
					LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.Name),
					VersionNumber: aws.Int64(number), ResponseError: refused,
				})
		}
		return nil
	})
	return out, err
}

// GetLaunchTemplateData returns the data of a launch template that would launch instances like the one that is named.
func (s *Service) GetLaunchTemplateData(ctx context.Context, in *ec2.GetLaunchTemplateDataInput) (
	*ec2.GetLaunchTemplateDataOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.Instances.GetRecord(sc, in.InstanceId)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, resource.ErrDryRun
	}
	data := &types.ResponseLaunchTemplateData{
		DisableApiStop: aws.Bool(r.DisableAPIStop), DisableApiTermination: aws.Bool(r.DisableAPITermination),
		EbsOptimized: aws.Bool(r.EBSOptimized),
		ImageId:      aws.String(r.ImageID), InstanceInitiatedShutdownBehavior: r.ShutdownBehavior,
		InstanceType: r.InstanceType, KeyName: resource.OrNil(r.KeyName),
		Monitoring: &types.LaunchTemplatesMonitoring{Enabled: aws.Bool(r.DetailedMonitoring)},
		Placement: &types.LaunchTemplatePlacement{AvailabilityZone: aws.String(r.AvailabilityZone),
			GroupName: aws.String(r.PlacementGroup), Tenancy: r.Tenancy},
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptions{
			HttpEndpoint:            types.LaunchTemplateInstanceMetadataEndpointState(r.Metadata.HTTPEndpoint),
			HttpPutResponseHopLimit: aws.Int32(r.Metadata.HTTPPutResponseHopLimit),
			HttpTokens:              types.LaunchTemplateHttpTokensState(r.Metadata.HTTPTokens),
			HttpProtocolIpv6:        types.LaunchTemplateInstanceMetadataProtocolIpv6(r.Metadata.HTTPProtocolIPv6),
			InstanceMetadataTags:    types.LaunchTemplateInstanceMetadataTagsState(r.Metadata.InstanceMetadataTags),
		},
	}
	if len(r.UserData) > 0 {
		data.UserData = resource.Base64(r.UserData)
	}
	if r.InstanceProfileARN != "" {
		data.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecification{
			Arn: aws.String(r.InstanceProfileARN)}
	}
	if tags := s.ListTags(sc, r.ID); len(tags) > 0 {
		data.TagSpecifications = []types.LaunchTemplateTagSpecification{{ResourceType: types.ResourceTypeInstance,
			Tags: slices.DeleteFunc(tags, func(t types.Tag) bool { return resource.ReservedTag(t.Key) })}}
	}
	interfaces, err := s.InterfacesOf(sc, r.ID)
	for _, ni := range interfaces {
		data.NetworkInterfaces = append(data.NetworkInterfaces,
			types.LaunchTemplateInstanceNetworkInterfaceSpecification{
				DeleteOnTermination: aws.Bool(ni.Attachment.DeleteOnTermination),
				Description:         aws.String(ni.Description),
				DeviceIndex:         aws.Int32(ni.Attachment.DeviceIndex),
				Groups:              ni.SecurityGroupIDs, InterfaceType: aws.String(string(ni.InterfaceType)),
				SubnetId: aws.String(ni.SubnetID),
			})
	}
	for _, b := range r.BlockDevices {
		v := resource.MustRead(s.Volumes.Table.Get(sc, sc.Key(b.VolumeID))).Value
		data.BlockDeviceMappings = append(data.BlockDeviceMappings,
			types.LaunchTemplateBlockDeviceMapping{DeviceName: aws.String(b.DeviceName),
				Ebs: &types.LaunchTemplateEbsBlockDevice{
					DeleteOnTermination: aws.Bool(b.DeleteOnTermination), Encrypted: aws.Bool(v.Encrypted),
					SnapshotId: resource.OrNil(v.SnapshotID), VolumeSize: aws.Int32(v.Size), VolumeType: v.Type,
				}})
	}
	return &ec2.GetLaunchTemplateDataOutput{LaunchTemplateData: data}, err
}
