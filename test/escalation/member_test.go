package escalation

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	iamservice "github.com/coracle-eks/coracle/internal/aws/iam"
	stsservice "github.com/coracle-eks/coracle/internal/aws/sts"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// identifier matches the names of members that say which resource a request is about.
var identifier = regexp.MustCompile(
	`(Id|Ids|Arn|Arns|ARN|ARNs|Name|Names|Identifier|Identifiers|Groups|Resources|Subnets|Pointer|Ip|Ips|Path|Owner|Owners|Source)$`,
)

// TestEveryIdentifierIsAuthorized changes one identifier in an otherwise equal request at a time. The permission that
// the request needs must change with it, or the table below says why it need not.
func TestEveryIdentifierIsAuthorized(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := &recorder{}
	mux := wire.NewMux(wire.Options{Credentials: r, Authorizer: r, Region: region})
	w.register(mux)
	r.values, r.launch = w.pair(), w.running()
	iamservice.New(w.Store, w.Identity, w.Now).Register(mux)
	stsservice.New(w.Store, w.Identity, w.Issuers, w.Now).Register(mux)

	used := map[string]bool{}
	checked := 0
	for _, op := range mux.Operations() {
		if !op.Served || op.Unsigned || op.Unrestricted {
			continue
		}
		operation := op.Service.ActionPrefix + ":" + op.Name
		for _, member := range members(reflect.TypeOf(op.MinimalInput()).Elem()) {
			name := operation + "." + member.String()
			excused := false
			for pattern := range notAuthorized {
				if glob(pattern).MatchString(name) {
					used[pattern], excused = true, true
				}
			}
			if excused {
				continue
			}
			checked++
			one, err := r.targets(t, mux, op, member, 1)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			two, err := r.targets(t, mux, op, member, 2)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if one == two {
				t.Errorf("%s does not change what the request needs: %s", name, one)
			}
		}
	}
	for pattern := range notAuthorized {
		if !used[pattern] {
			t.Errorf("%s matches no member", pattern)
		}
	}
	t.Logf("%d identifiers", checked)
}

// notAuthorized are the identifiers on which the permission does not depend, with the reason. In a key, "*" stands for
// any text.
var notAuthorized = map[string]string{
	"acm:RequestCertificate.DomainValidationOptions/*": "is content",

	"autoscaling:Describe*": reads,
	"autoscaling:*/*": "CreateAutoScalingGroup asks for ec2:RunInstances and " +
		"iam:PassRole of what a launch template names",
	"autoscaling:CreateAutoScalingGroup.[AICS]*":    "is content, or is not supported",
	"autoscaling:CreateAutoScalingGroup.La*":        "is not supported",
	"autoscaling:UpdateAutoScalingGroup.[ACLS]*":    "is content, or is not supported",
	"autoscaling:*LaunchConfiguration.*":            "there are no launch configurations",
	"autoscaling:*NotificationConfiguration.Topic*": "is not supported",
	"autoscaling:PutLifecycleHook.*ARN":             "is not supported",
	"autoscaling:*.LifecycleHookName":               inGroup,
	"autoscaling:*.ScheduledActionName*":            inGroup,

	"ec2:Describe[A-HJ-Z]*":             reads,
	"ec2:DescribeI[a-mo-z]*":            reads,
	"ec2:DescribeInst*s*.*":             reads,
	"ec2:DescribeInternet*":             reads,
	"ec2:GetManagedPrefixListEntries.*": reads,
	"ec2:*.Filters/Name":                "selects among what the caller may read",
	"ec2:*.IpPermissions/*": "is content of a rule; the group that gets the rule is " +
		"authorized",
	"ec2:*SecurityGroup*.CidrIp":                         "is content of a rule",
	"ec2:*SecurityGroup*.SourceSecurityGroup*":           "is content of a rule",
	"ec2:*SecurityGroupRule*.*/SecurityGroupRuleId":      "belongs to the group, which is authorized",
	"ec2:ModifySecurityGroupRules.*/SecurityGroupRule/*": "is content of a rule",
	"ec2:*Ipam*":   "there is no IPAM",
	"ec2:*Route.*": "is content of a route; the route table is authorized",
	"ec2:*LaunchTemplate*.LaunchTemplateData/*":   "is content; RunInstances is authorized on what a template names",
	"ec2:CreateLaunchTemplate.LaunchTemplateName": "names what is created, whose ARN has an ID",
	"ec2:CreateSecurityGroup.GroupName":           "names what is created, whose ARN has an ID",
	"ec2:*.AvailabilityZoneId":                    "is not a resource",
	"ec2:*.*Outpost*":                             "is not supported",
	"ec2:*.*CapacityReservation*":                 "is not supported",
	"ec2:*.AvailabilityZoneAddresses/*":           "is not supported",
	"ec2:*.SecondaryAllocationIds":                "is not supported",
	"ec2:*.SubnetConfigurations/*":                "is not supported",
	"ec2:CreateSnapshots.*/ExcludeDataVolumeIds":  "is left alone",
	"ec2:CreatePlacementGroup.*GroupId":           "is not supported",
	"ec2:CreateNetworkInsightsPath.*Ip":           "is content",
	"ec2:StartNetworkInsightsAnalysis.Filter*":    "restricts the path, which is authorized",
	"ec2:CreateVpcEndpoint.[RS]*":                 "is a service of AWS, or not supported",
	"ec2:ModifyNetworkInterfaceAttribute.A*": "belongs to the interface, which is authorized, or is not " +
		"supported",
	"ec2:ModifyInstanceAttribute.BlockDeviceMappings/*": "belongs to the instance, which is authorized",
	"ec2:ModifyAddressAttribute.DomainName":             "is content",
	"ec2:*.IamInstanceProfile/*":                        "asks for iam:PassRole in the operation",
	"ec2:CreateFleet.LaunchTemplateConfigs/Overrides/*": "is authorized by the launches of the fleet",
	"ec2:RunInstances.KernelId":                         "is not supported",
	"ec2:RunInstances.RamdiskId":                        "is not supported",
	"ec2:RunInstances.*/*":                              "TestPaths has what a launch names",
	"ec2:RequestSpotInstances.LaunchSpecification/*":    "TestPaths has what a launch names",

	"ecr:*.UploadId":                        "belongs to the repository, which is authorized",
	"ecr:CreatePullThroughCacheRule.*Arn":   "is not supported",
	"ecr:GetAuthorizationToken.RegistryIds": "the token lets in whom it was given to, whatever registry is named",

	"elasticfilesystem:*.AvailabilityZoneName":                            "is not a resource",
	"elasticfilesystem:CreateAccessPoint.RootDirectory/Path":              "is content",
	"elasticfilesystem:CreateFileSystem.KmsKeyId":                         "asks for the key in the operation",
	"elasticfilesystem:CreateReplicationConfiguration.Destinations/[FK]*": "is not supported",

	"elasticloadbalancing:Describe*":                     reads,
	"elasticloadbalancing:*.PolicyName*":                 "belongs to the load balancer, which is authorized",
	"elasticloadbalancing:*.PolicyTypeName":              "is not a resource",
	"elasticloadbalancing:*.PolicyAttributes/*":          "is content",
	"elasticloadbalancing:*.LoadBalancerAttributes/*":    "is content",
	"elasticloadbalancing:*.HealthCheckPath":             "is content",
	"elasticloadbalancing:*Instances*.Instances/*":       "is a target; the load balancer is authorized",
	"elasticloadbalancing:*Targets.Targets/*":            "is a target; the target group is authorized",
	"elasticloadbalancing:*SSLCertificateId":             "AWS authorizes the load balancer",
	"elasticloadbalancing:*CertificateArn":               "AWS authorizes the load balancer or listener",
	"elasticloadbalancing:*Rule.Actions/*":               "AWS authorizes the listener or rule",
	"elasticloadbalancing:*Rule.Conditions/*":            "is content",
	"elasticloadbalancing:*.MutualAuthentication/*":      "is not supported",
	"elasticloadbalancing:*.IpamPools/*":                 "is not supported",
	"elasticloadbalancing:*.DefaultActions/*":            "AWS authorizes the load balancer or listener",
	"elasticloadbalancing:*.SubnetMappings/AllocationId": "AWS's service-linked role uses it, as in AWS",
	"elasticloadbalancing:CreateTargetGroup.VpcId":       "AWS authorizes the target group",

	"eks:*.UpdateId":                                           "belongs to what was updated, which is authorized",
	"eks:CreateCapability.CapabilityName":                      "AWS authorizes the cluster",
	"eks:*Capability.Configuration/*":                          "is content",
	"eks:CreateEksAnywhereSubscription.Name":                   "names what is created, whose ARN has an ID",
	"eks:DescribeInsight.Id":                                   "belongs to the cluster, which is authorized",
	"eks:*.CertificateAuthorityId":                             "belongs to the cluster, which is authorized",
	"eks:DescribeAddon[CV]*":                                   "is public data",
	"eks:ListAccessEntries.AssociatedPolicyArn":                "selects among what the caller may read",
	"eks:CreateAddon.AddonName":                                "AWS authorizes the cluster",
	"eks:CreateNodegroup.NodegroupName":                        "AWS authorizes the cluster",
	"eks:CreateFargateProfile.FargateProfileName":              "AWS authorizes the cluster",
	"eks:CreateFargateProfile.Subnets":                         "EKS's service-linked role uses them, as in AWS",
	"eks:AssociateIdentityProviderConfig.Oidc/Identity*":       "AWS authorizes the cluster",
	"eks:*RoleArn":                                             "asks for iam:PassRole in the operation",
	"eks:*.ResourcesVpcConfig/*":                               "EKS's service-linked role uses them, as in AWS",
	"eks:CreateCluster.EncryptionConfig/Resources":             "is the word secrets",
	"eks:AssociateEncryptionConfig.EncryptionConfig/Resources": "is the word secrets",
	"eks:*.KubeSchedulerConfig/*":                              "is content",
	"eks:CreateCluster.OutpostConfig/*":                        "is not supported",
	"eks:CreateNodegroup.Subnets":                              "EKS's service-linked role uses them, as in AWS",
	"eks:CreateNodegroup.RemoteAccess/*":                       "EKS's service-linked role uses them, as in AWS",
	"eks:*Nodegroup*.LaunchTemplate/*":                         "asks for ec2:RunInstances and iam:PassRole in the operation",

	"iam:AddUserToGroup.UserName":                "AWS authorizes the group",
	"iam:RemoveUserFromGroup.UserName":           "AWS authorizes the group",
	"iam:RemoveRoleFromInstanceProfile.RoleName": "AWS authorizes the profile",
	"iam:*.AccessKeyId":                          "belongs to the user, who is authorized",
	"iam:*.VersionId":                            "belongs to the policy, which is authorized",
	"iam:*Policy.PolicyName":                     "belongs to the user, group or role, which is authorized",
	"iam:GetServiceLinkedRoleDeletionStatus.*":   "is not a resource",
	"iam:SimulateCustomPolicy.*":                 "asks about policies in the request",
	"iam:SimulatePrincipalPolicy.[ACR]*":         "is what the simulation is asked; its principal is authorized",

	"cloudwatch:*": "AWS authorizes what reads metrics on all resources; whose they are follows from the caller",

	"logs:*.KmsKeyId":                    "is not supported",
	"logs:*QueryDefinition.*":            "AWS has no resources for query definitions",
	"logs:*.QueryId":                     "AWS has no resources for queries",
	"logs:DescribeLogGroups.*":           "AWS authorizes what lists on all groups",
	"logs:ListLogGroups.*":               "AWS authorizes what lists on all groups",
	"logs:DescribeQueries.LogGroupName":  "selects among what the caller may read",
	"logs:*.LogStreamNames":              "AWS authorizes the group",
	"logs:DescribeDeliver*":              reads,
	"logs:*.S3DeliveryConfiguration/*":   "is not supported",
	"logs:PutDeliveryDestination.Role*":  "is not supported",
	"logs:GetLogRecord.LogRecordPointer": "names an event of a group, which is authorized when it exists",
	"logs:PutDeliveryDestination.Delivery*": "CreateDelivery asks for logs:PutResourcePolicy of the group, unless its " +
		"resource policies let deliveries in",
	"logs:*ResourcePolicy.PolicyName":         "AWS has no resources for resource policies",
	"logs:*ResourcePolicy.ExpectedRevisionId": "is what the caller has read of the policy, whose group is authorized",

	"shield:ListProtections.InclusionFilters/*": "selects among what the caller may read",

	"ssm:PutParameter.KeyId":                "is not supported",
	"sts:GetAccessKeyInfo.AccessKeyId":      "the account is part of the key",
	"sts:GetFederationToken.PolicyArns/Arn": "limits the session",

	"elasticfilesystem:CreateReplicationConfiguration.*/AvailabilityZoneName": "is not a resource",
}

const (
	reads   = "AWS authorizes what only reads on all resources"
	inGroup = "belongs to the group, which is authorized"
)

var glob = func() func(string) *regexp.Regexp {
	compiled := map[string]*regexp.Regexp{}
	return func(pattern string) *regexp.Regexp {
		if compiled[pattern] == nil {
			compiled[pattern] = regexp.MustCompile(
				"^" + strings.NewReplacer(`\*`, ".*", `\[`, "[", `\]`, "]").Replace(regexp.QuoteMeta(pattern)) + "$",
			)
		}
		return compiled[pattern]
	}
}()

// member is the way to a string in an input: names of members, through lists and structures.
type member []string

func (m member) String() string { return strings.Join(m, "/") }

// members returns the paths of all identifiers in an input.
func members(input reflect.Type) []member {
	var found []member
	var walk func(t reflect.Type, way member, through []reflect.Type)
	walk = func(t reflect.Type, way member, through []reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		switch {
		case t.Kind() == reflect.String && t == reflect.TypeFor[string]():
			if len(way) > 0 && identifier.MatchString(way[len(way)-1]) {
				found = append(found, slices.Clone(way))
			}
		case t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() && !slices.Contains(through, t):
			for i := range t.NumField() {
				if f := t.Field(i); f.IsExported() {
					walk(f.Type, append(slices.Clone(way), f.Name), append(slices.Clone(through), t))
				}
			}
		}
	}
	walk(input, nil, nil)
	return found
}

// set gives the member of an input a value, and makes what is on the way to it.
func set(v reflect.Value, way member, value string) {
	for {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() || v.Elem().Kind() == reflect.String {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			v = v.Index(0)
		case reflect.Struct:
			if key := v.FieldByName("Key"); key.IsValid() && key.Type() == reflect.TypeFor[*string]() {
				key.Set(reflect.ValueOf(aws.String("key"))) // which every tag must have
			}
			v, way = v.FieldByName(way[0]), way[1:]
		default:
			v.SetString(value)
			return
		}
	}
}

// example returns a value of the kind that a member has; n is 1 or 2, and makes them different.
func (r *recorder) example(operation, name string, n int) string {
	if v := cmp.Or(r.values[n-1][operation+"."+name], r.values[n-1][name]); v != "" {
		return v
	}
	switch lower := strings.ToLower(name); {
	case operation == "AddRoleToInstanceProfile" && name == "RoleName":
		return []string{"admin", "weak"}[n-1]
	case strings.HasSuffix(lower, "arn"), strings.HasSuffix(lower, "arns"):
		return fmt.Sprintf("arn:aws:iam::%s:role/role-%d", account, n)
	case strings.HasSuffix(name, "Ip"), strings.HasSuffix(name, "Ips"):
		return fmt.Sprintf("192.0.2.%d", n)
	case name == "Path", name == "NewPath":
		return fmt.Sprintf("/path-%d/", n)
	case strings.HasPrefix(name, "RegistryId"):
		return fmt.Sprintf("11112222333%d", n)
	case name == "VersionId":
		return fmt.Sprintf("v%d", n)
	case name == "AccessKeyId":
		return fmt.Sprintf("AKIAIOSFODNN7EXAMPL%d", n)
	case name == "UploadId":
		return fmt.Sprintf("00000000-0000-0000-0000-00000000000%d", n)
	}
	return fmt.Sprintf("name-%d", n)
}

// recorder lets everybody in, refuses everything, and keeps what it was asked for.
type recorder struct {
	values [2]map[string]string   // of members, by operation and member or by member alone
	launch *ec2.RunInstancesInput // that can be launched
	asked  []wire.Target
}

func (*recorder) Lookup(context.Context, string, string) (string, wire.Caller, error) {
	arn := "arn:aws:iam::" + account + ":user/caller"
	return "secret", wire.Caller{
		Account:      account,
		ARN:          arn,
		PrincipalARN: arn,
		UserID:       "AIDACALLER",
		AccessKeyID:  "AKIACALLER",
	}, nil
}

func (r *recorder) Authorize(_ context.Context, _ wire.Caller, targets []wire.Target) error {
	r.asked = targets
	return &wire.Denied{Action: "recorded", Resource: "*"}
}

// targets returns the authorization targets of a request whose member has the nth value, without those that every
// request has.
func (r *recorder) targets(t *testing.T, mux *wire.Mux, op wire.Operation, m member, n int) (string, error) {
	t.Helper()
	input := op.MinimalInput()
	if launch, ok := input.(*ec2.RunInstancesInput); ok {
		*launch = *r.launch
		if m[0] == "SecurityGroups" {
			launch.SubnetId = nil // groups with names are those of the default VPC
		}
	}
	set(reflect.ValueOf(input), m, r.example(op.Name, m[len(m)-1], n))
	request, err := op.NewRequest("http://coracle.test", input)
	if err != nil {
		return "", err
	}
	var body []byte
	if request.Body != nil {
		if body, err = io.ReadAll(request.Body); err != nil {
			return "", err
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	hash := sha256.Sum256(body)
	credentials := aws.Credentials{AccessKeyID: "AKIACALLER", SecretAccessKey: "secret"}
	err = v4.NewSigner().SignHTTP(
		t.Context(), credentials, request, hex.EncodeToString(hash[:]), op.Service.SigningName, region, time.Now(),
	)
	if err != nil {
		return "", err
	}
	r.asked = nil
	answer := httptest.NewRecorder()
	request.RequestURI = request.URL.RequestURI()
	mux.ServeHTTP(answer, request)
	if r.asked == nil {
		return "", fmt.Errorf("%d before authorization: %.300s", answer.Code, answer.Body)
	}
	for _, target := range r.asked {
		maps.DeleteFunc(target.Conditions, func(key string, _ []string) bool {
			return slices.Contains([]string{
				"aws:SourceIp", "aws:UserAgent", "aws:CurrentTime", "aws:EpochTime", "aws:SecureTransport",
				"aws:RequestedRegion",
			}, key)
		})
	}
	text, err := json.Marshal(r.asked)
	return string(text), err
}

// mountTarget records a mount target, and sets the identifiers of requests to EFS.
func (w *fixture) mountTarget(v map[string]string, n int) {
	w.t.Helper()
	m := record.MountTarget{
		Account: account, Region: region, ID: fmt.Sprintf("fsmt-%017d", n), FileSystemID: fmt.Sprintf("fs-%017d", n),
		NetworkInterfaceID: fmt.Sprintf("eni-%017d", n),
	}
	_, err := record.MountTargets(w.Store).Create(w.t.Context(), m.Key(), m)
	w.do(nil, err)
	v["FileSystemId"], v["SourceFileSystemId"], v["MountTargetId"] = m.FileSystemID, m.FileSystemID, m.ID
	v["AccessPointId"] = fmt.Sprintf("fsap-%017d", n)
	for _, op := range []string{"TagResource", "UntagResource", "ListTagsForResource"} {
		v[op+".ResourceId"] = m.FileSystemID
	}
	v["CreateMountTarget.SubnetId"] = fmt.Sprintf("subnet-%017d", n)
	for _, op := range []string{"CreateMountTarget", "ModifyMountTargetSecurityGroups"} {
		v[op+".SecurityGroups"] = fmt.Sprintf("sg-%017d", n)
	}
}

// loadBalancer sets the identifiers of requests to Elastic Load Balancing.
func (w *fixture) loadBalancer(v map[string]string, n int) {
	b := record.LoadBalancer{Account: account, Region: region, Kind: record.NetworkLoadBalancer,
		Name: fmt.Sprint("name-", n), ID: fmt.Sprintf("%016d", n)}
	v["LoadBalancerArn"], v["ListenerArn"], v["RuleArn"] = b.ARN(), b.ListenerARN(b.ID), b.RuleARN(b.ID, b.ID)
	v["TargetGroupArn"] = record.TargetGroup{Account: account, Region: region, Name: b.Name, ID: b.ID}.ARN()
	v["AddTags.ResourceArns"], v["RemoveTags.ResourceArns"] = b.ARN(), b.ARN()
	v["DeliveryDestinationArn"] = record.LogDeliveryDestination{Account: account, Region: region, Name: b.Name}.ARN()
	for _, op := range []string{"GetDelivery", "DeleteDelivery", "UpdateDeliveryConfiguration"} {
		v[op+".Id"] = fmt.Sprint(n)
	}
}

// pair makes two of everything that requests name by something else than an identifier of its own: values[0] and
// values[1] are by member, or by operation and member.
func (w *fixture) pair() [2]map[string]string {
	w.t.Helper()
	ctx, root := w.t.Context(), w.root.ec2
	w.network()
	var values [2]map[string]string
	for i := range values {
		n := fmt.Sprint("name-", i+1)
		v := map[string]string{}
		values[i] = v

		w.mountTarget(v, i+1)
		w.loadBalancer(v, i+1)
		v["CertificateArn"] = record.CertificateARN(account, region, fmt.Sprintf("00000000-0000-0000-0000-%012d", i+1))
		v["GetWebACL.Id"] = fmt.Sprintf("00000000-0000-0000-0000-%012d", i+1)
		v["ProtectionId"] = v["GetWebACL.Id"]
		v["CertificateAuthorityArn"] = "arn:aws:acm-pca:" + region + ":" + account + ":certificate-authority/" + n
		w.do(root.CreateKeyPair(ctx, &ec2.CreateKeyPairInput{KeyName: &n}))
		w.do(
			root.CreatePlacementGroup(
				ctx,
				&ec2.CreatePlacementGroupInput{GroupName: &n, Strategy: ec2types.PlacementStrategyCluster},
			),
		)
		w.do(root.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: &n, Description: &n}))
		template, err := root.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
			LaunchTemplateName: &n, LaunchTemplateData: launched(""),
		})
		w.do(nil, err)
		v["CreateFleet.LaunchTemplateId"] = *template.LaunchTemplate.LaunchTemplateId
		v["RunInstances.LaunchTemplateId"] = *template.LaunchTemplate.LaunchTemplateId

		vpc, err := root.CreateVpc(ctx, &ec2.CreateVpcInput{
			CidrBlock: p("10.0.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true),
		})
		w.do(nil, err)
		v["DisassociateVpcCidrBlock.AssociationId"] = *vpc.Vpc.Ipv6CidrBlockAssociationSet[0].AssociationId
		block := strings.Replace(*vpc.Vpc.Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock, "/56", "/64", 1)
		subnet, err := root.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: vpc.Vpc.VpcId, CidrBlock: p("10.0.0.0/24"), Ipv6CidrBlock: &block,
		})
		w.do(nil, err)
		v["DisassociateSubnetCidrBlock.AssociationId"] = *subnet.Subnet.Ipv6CidrBlockAssociationSet[0].AssociationId
		v["RunInstances.SubnetId"] = *subnet.Subnet.SubnetId
		acls, err := root.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{
			Filters: []ec2types.Filter{{Name: p("vpc-id"), Values: []string{*vpc.Vpc.VpcId}}},
		})
		w.do(nil, err)
		v["ReplaceNetworkAclAssociation.AssociationId"] = *acls.NetworkAcls[0].Associations[0].NetworkAclAssociationId
		table, err := root.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: vpc.Vpc.VpcId})
		w.do(nil, err)
		routed, err := root.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{
			RouteTableId: table.RouteTable.RouteTableId, SubnetId: subnet.Subnet.SubnetId,
		})
		w.do(nil, err)
		v["DisassociateRouteTable.AssociationId"] = *routed.AssociationId
		v["ReplaceRouteTableAssociation.AssociationId"] = *routed.AssociationId
		gateway, err := root.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{})
		w.do(nil, err)
		w.do(root.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{
			InternetGatewayId: gateway.InternetGateway.InternetGatewayId, VpcId: vpc.Vpc.VpcId,
		}))
		v["AssociateRouteTable.GatewayId"] = *gateway.InternetGateway.InternetGatewayId

		launch := w.running()
		launch.SubnetId = subnet.Subnet.SubnetId
		instances, err := root.RunInstances(ctx, launch)
		w.do(nil, err)
		instance := *instances.Instances[0].InstanceId
		w.boots(instance)
		profile, err := root.AssociateIamInstanceProfile(ctx, &ec2.AssociateIamInstanceProfileInput{
			InstanceId: &instance, IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{
				Name: p("weak-profile")},
		})
		w.do(nil, err)
		v["DisassociateIamInstanceProfile.AssociationId"] = *profile.IamInstanceProfileAssociation.AssociationId
		v["ReplaceIamInstanceProfileAssociation.AssociationId"] = *profile.IamInstanceProfileAssociation.AssociationId
		port, err := root.CreateNetworkInterface(
			ctx,
			&ec2.CreateNetworkInterfaceInput{SubnetId: subnet.Subnet.SubnetId},
		)
		w.do(nil, err)
		attached, err := root.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{
			NetworkInterfaceId: port.NetworkInterface.NetworkInterfaceId, InstanceId: &instance,
			DeviceIndex: aws.Int32(1),
		})
		w.do(nil, err)
		trunk, err := root.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{
			SubnetId: subnet.Subnet.SubnetId, InterfaceType: ec2types.NetworkInterfaceCreationTypeTrunk})
		w.do(nil, err)
		branch, err := root.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{SubnetId: subnet.Subnet.SubnetId})
		w.do(nil, err)
		trunked, err := root.AssociateTrunkInterface(ctx, &ec2.AssociateTrunkInterfaceInput{VlanId: aws.Int32(1),
			TrunkInterfaceId:  trunk.NetworkInterface.NetworkInterfaceId,
			BranchInterfaceId: branch.NetworkInterface.NetworkInterfaceId})
		w.do(nil, err)
		v["DisassociateTrunkInterface.AssociationId"] = *trunked.InterfaceAssociation.AssociationId
		v["RunInstances.ImageId"] = machineImages()[i]
		v["CreateNetworkInsightsPath.Source"] = *port.NetworkInterface.NetworkInterfaceId
		v["AttachmentId"] = *attached.AttachmentId
		v["RunInstances.NetworkInterfaceId"] = *port.NetworkInterface.NetworkInterfaceId
		address, err := root.AllocateAddress(ctx, &ec2.AllocateAddressInput{})
		w.do(nil, err)
		v["PublicIp"] = *address.PublicIp
		associated, err := root.AssociateAddress(ctx, &ec2.AssociateAddressInput{
			AllocationId: address.AllocationId, NetworkInterfaceId: port.NetworkInterface.NetworkInterfaceId,
		})
		w.do(nil, err)
		v["DisassociateAddress.AssociationId"] = *associated.AssociationId

		for _, operation := range []string{"AttachInstances", "CompleteLifecycleAction", "DetachInstances",
			"EnterStandby",
			"ExitStandby", "RecordLifecycleActionHeartbeat", "SetInstanceHealth", "SetInstanceProtection",
			"TerminateInstanceInAutoScalingGroup"} {
			v[operation+".InstanceId"], v[operation+".InstanceIds"] = instance, instance
		}
		w.do(
			record.AutoScalingInstances(w.Store).
				Put(ctx, record.EC2Key(account, region, instance), record.AutoScalingInstance{
					ID: instance, GroupName: n, InstanceType: "m5.large", State: asgtypes.LifecycleStateInService,
					Weight: 1,
				}),
		)
		v["PolicyName"] = fmt.Sprintf(
			"arn:aws:autoscaling:%s:%s:scalingPolicy:uuid:autoScalingGroupName/%s:policyName/p",
			region,
			account,
			n,
		)
	}
	return values
}
