package vpc

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// openPolicy is the policy of an endpoint whose creator gave none.
const openPolicy = `{"Version":"2008-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}]}`

// EC2 writes the states of endpoints small, unlike the SDK's constants; Terraform compares them letter by letter.
const (
	endpointPending   types.State = "pending"
	endpointAvailable types.State = "available"
)

// interfaceServices are the services that have endpoints, those of them with interface endpoints only once.
var interfaceServices = []string{
	"autoscaling", "cloudformation", "ec2", "ec2messages", "ecr.api", "ecr.dkr", "eks", "eks-auth", "elasticfilesystem",
	"elasticloadbalancing",
	"kms", "logs", "monitoring", "sqs", "ssm", "ssmmessages", "sts", "xray",
}

var gatewayServices = []string{"dynamodb", "s3"}

// endpointService is a service that has endpoints of some type.
type endpointService struct {
	name   string // "com.amazonaws.eu-west-1.s3"
	kind   types.VpcEndpointType
	domain string // private DNS name of interface endpoints
}

// endpointServices returns the services that have endpoints in the region of a scope.
func endpointServices(sc resource.Scope) []endpointService {
	var all []endpointService
	prefix := "com.amazonaws." + sc.Region + "."
	for _, name := range gatewayServices {
		all = append(all, endpointService{prefix + name, types.VpcEndpointTypeGateway, ""})
	}
	for _, name := range slices.Concat(interfaceServices, []string{"s3"}) {
		labels := strings.Split(name, ".")
		slices.Reverse(labels)
		all = append(all, endpointService{prefix + name, types.VpcEndpointTypeInterface, strings.Join(labels, ".") +
			"." + sc.Region + ".amazonaws.com"})
	}
	slices.SortFunc(all, func(a, b endpointService) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(string(a.kind), string(b.kind)))
	})
	return all
}

func (s *Service) newVPCEndpointView() resource.View[record.VPCEndpoint, types.VpcEndpoint] {
	type v = types.VpcEndpoint
	return resource.View[record.VPCEndpoint, v]{
		Kind:   s.VPCEndpoints,
		Show:   s.viewEndpoint,
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"ip-address-type":    resource.EnumFilter(func(x v) types.IpAddressType { return x.IpAddressType }),
			"service-name":       resource.StringFilter(func(x v) *string { return x.ServiceName }),
			"service-region":     resource.StringFilter(func(x v) *string { return x.ServiceRegion }),
			"vpc-id":             resource.StringFilter(func(x v) *string { return x.VpcId }),
			"vpc-endpoint-id":    resource.StringFilter(func(x v) *string { return x.VpcEndpointId }),
			"vpc-endpoint-state": resource.EnumFilter(func(x v) types.State { return x.State }),
			"vpc-endpoint-type":  resource.EnumFilter(func(x v) types.VpcEndpointType { return x.VpcEndpointType }),
		},
	}
}

func (s *Service) viewEndpoint(sc resource.Scope, r record.VPCEndpoint) types.VpcEndpoint {
	v := types.VpcEndpoint{
		CreationTimestamp:   aws.Time(r.CreatedAt),
		DnsEntries:          []types.DnsEntry{},
		Groups:              []types.SecurityGroupIdentifier{},
		IpAddressType:       r.IPAddressType,
		NetworkInterfaceIds: append([]string{}, r.NetworkInterfaceIDs...),
		OwnerId:             aws.String(r.Account),
		PolicyDocument:      aws.String(s.endpointPolicy(sc, r)),
		PrivateDnsEnabled:   aws.Bool(r.PrivateDNSEnabled),
		RequesterManaged:    aws.Bool(r.RequesterManaged),
		RouteTableIds:       append([]string{}, r.RouteTableIDs...),
		ServiceName:         aws.String(r.ServiceName),
		ServiceRegion:       aws.String(r.Region),
		State:               endpointAvailable,
		SubnetIds:           append([]string{}, r.SubnetIDs...),
		Tags:                s.ListTagSet(sc, r.ID),
		VpcEndpointId:       aws.String(r.ID),
		VpcEndpointType:     r.Type,
		VpcId:               aws.String(r.VPCID),
	}
	for _, g := range s.SecurityGroupIdentifiers(sc, r.SecurityGroupIDs) {
		v.Groups = append(v.Groups, types.SecurityGroupIdentifier(g))
	}
	for _, service := range endpointServices(sc) {
		if r.Type == types.VpcEndpointTypeInterface && service.kind == r.Type && service.name == r.ServiceName {
			name := r.ID + "." + strings.TrimSuffix(service.domain, ".amazonaws.com") + ".vpce.amazonaws.com"
			v.DnsEntries = append(v.DnsEntries, types.DnsEntry{DnsName: aws.String(name)})
			if r.PrivateDNSEnabled {
				v.DnsEntries = append(v.DnsEntries, types.DnsEntry{DnsName: aws.String(service.domain)})
			}
		}
	}
	return v
}

// vpcEndpointHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) vpcEndpointHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(
			s.CreateVpcEndpoint,
			resource.Creating[ec2.CreateVpcEndpointInput](s.Records, types.ResourceTypeVpcEndpoint),
		),
		wire.Handle(s.DescribeVpcEndpoints, resource.OnRegion),
		wire.Handle(s.ModifyVpcEndpoint, resource.Touching[ec2.ModifyVpcEndpointInput](s.Records)),
		wire.Handle(s.DeleteVpcEndpoints, resource.Touching[ec2.DeleteVpcEndpointsInput](s.Records)),
		wire.Handle(s.DescribeVpcEndpointServices, resource.OnRegion),
	}
}

// CreateVpcEndpoint makes a way from a VPC to an AWS service: routes to a gateway, or network interfaces.
func (s *Service) CreateVpcEndpoint(ctx context.Context, in *ec2.CreateVpcEndpointInput) (
	*ec2.CreateVpcEndpointOutput, error) {
	out, err := s.vpcEndpointView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications,
		Token: in.ClientToken, Request: in}, func(c *resource.Change, id string) error {
		vpc, err := c.HoldVPC(in.VpcId)
		if err != nil {
			return err
		}
		e := record.VPCEndpoint{
			EC2Resource: c.NewResource(id, in.ClientToken),
			VPCID:       vpc.ID,
			Type: types.VpcEndpointType(cmp.Or(string(in.VpcEndpointType),
				string(types.VpcEndpointTypeGateway))),
			ServiceName:   aws.ToString(in.ServiceName),
			IPAddressType: types.IpAddressType(cmp.Or(string(in.IpAddressType), string(types.IpAddressTypeIpv4))),
		}
		switch {
		case in.ServiceName == nil:
			return resource.MissingParameter("serviceName")
		case !slices.ContainsFunc(endpointServices(c.Scope), func(s endpointService) bool {
			return s.name == e.ServiceName &&
				s.kind == e.Type
		}):
			return wire.Errorf("InvalidServiceName", "The Vpc Endpoint Service '%s' does not exist", e.ServiceName)
		case in.ServiceRegion != nil && *in.ServiceRegion != c.Region:
			return resource.Unsupported("ServiceRegion")
		case len(in.SubnetConfigurations) > 0:
			return resource.Unsupported("SubnetConfiguration")
		}
		if err := checkEndpointQuota(c, e); err != nil {
			return err
		}
		if document := aws.ToString(in.PolicyDocument); document != "" {
			if err := setEndpointPolicy(c, &e, document); err != nil {
				return err
			}
		}
		if e.Type == types.VpcEndpointTypeGateway {
			err = addEndpointRoutes(c, &e, in.RouteTableIds)
		} else {
			e.PrivateDNSEnabled = in.PrivateDnsEnabled == nil || *in.PrivateDnsEnabled
			if e.PrivateDNSEnabled && (!vpc.EnableDNSHostnames || !vpc.EnableDNSSupport) {
				if in.PrivateDnsEnabled != nil {
					return wire.Errorf("InvalidParameter",
						"Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC attributes "+
							"set to true for %s", vpc.ID)
				}
				e.PrivateDNSEnabled = false
			}
			if e.SecurityGroupIDs, err = networkinterface.SecurityGroups(c, vpc.ID, in.SecurityGroupIds); err != nil {
				return err
			}
			err = addEndpointSubnets(c, &e, in.SubnetIds)
		}
		if err != nil {
			return err
		}
		s.VPCEndpoints.CreateRecord(c, e)
		return nil
	})
	if out != nil && out.VpcEndpointType == types.VpcEndpointTypeInterface {
		out.State = endpointPending
	}
	return &ec2.CreateVpcEndpointOutput{VpcEndpoint: out, ClientToken: in.ClientToken}, err
}

// servicePrefixList returns the prefix list of the service behind a gateway endpoint.
func servicePrefixList(sc resource.Scope, e record.VPCEndpoint) string {
	lists := sc.PrefixLists()
	i := slices.IndexFunc(lists, func(l resource.PrefixList) bool { return l.Name == e.ServiceName })
	return lists[i].ID // every gateway service has one
}

// addEndpointRoutes routes a gateway endpoint's service in more route tables of its VPC.
func addEndpointRoutes(c *resource.Change, e *record.VPCEndpoint, tables []string) error {
	list := servicePrefixList(c.Scope, *e)
	for _, id := range tables {
		if err := c.RouteTables.UpdateRecord(c, id, func(r *record.RouteTable) error {
			if r.VPCID != e.VPCID {
				return wire.Errorf("InvalidParameter", "Route table %s does not belong to vpc %s", id, e.VPCID)
			}
			if slices.ContainsFunc(r.Routes, func(own record.Route) bool { return own.Destination == list }) {
				return wire.Errorf("RouteAlreadyExists",
					"route table %s already has a route with destination-prefix-list-id %s", id, list)
			}
			r.Routes = append(r.Routes, record.Route{Destination: list, Target: e.ID,
				Origin: types.RouteOriginCreateRoute})
			return nil
		}); err != nil {
			return err
		}
		e.RouteTableIDs = append(e.RouteTableIDs, id)
	}
	return nil
}

func removeEndpointRoutes(c *resource.Change, e *record.VPCEndpoint, tables []string) error {
	for _, id := range tables {
		if !slices.Contains(e.RouteTableIDs, id) {
			return wire.Errorf("InvalidParameter", "Route table %s is not associated with endpoint %s", id, e.ID)
		}
		if err := c.RouteTables.UpdateRecord(c, id, func(r *record.RouteTable) error {
			r.Routes = slices.DeleteFunc(r.Routes, func(own record.Route) bool { return own.Target == e.ID })
			return nil
		}); err != nil {
			return err
		}
	}
	e.RouteTableIDs = slices.DeleteFunc(e.RouteTableIDs, func(id string) bool { return slices.Contains(tables, id) })
	return nil
}

// addEndpointSubnets gives an interface endpoint a network interface in each of more subnets of its VPC.
func addEndpointSubnets(c *resource.Change, e *record.VPCEndpoint, subnets []string) error {
	if err := networkinterface.CheckQuota(c, len(subnets)); err != nil {
		return err
	}
	zones := map[string]string{}
	for _, id := range e.SubnetIDs {
		subnet, err := c.Subnets.GetRecord(c.Scope, &id)
		if err != nil {
			return err
		}
		zones[subnet.AvailabilityZone] = id
	}
	for _, id := range subnets {
		subnet, err := c.Subnets.GetRecord(c.Scope, &id)
		if err != nil {
			return err
		}
		if subnet.VPCID != e.VPCID {
			return wire.Errorf("InvalidParameter", "Subnet %s does not belong to vpc %s", id, e.VPCID)
		}
		if other, taken := zones[subnet.AvailabilityZone]; taken {
			return wire.Errorf("DuplicateSubnetsInSameZone",
				"Found another VPC endpoint subnet in the availability zone of %s: %s", id, other)
		}
		zones[subnet.AvailabilityZone] = id
		if err := c.Subnets.Require(c, id); err != nil {
			return err
		}
		ni, err := networkinterface.NewInterface(c, resource.NewID(c.NetworkInterfaces.Prefix), subnet, "")
		if err != nil {
			return err
		}
		ni.InterfaceType, ni.SecurityGroupIDs = types.NetworkInterfaceTypeVpcEndpoint, e.SecurityGroupIDs
		markManaged(&ni, "VPC Endpoint Interface "+e.ID, "amazon-aws")
		c.NetworkInterfaces.CreateRecord(c, ni)
		e.SubnetIDs, e.NetworkInterfaceIDs = append(e.SubnetIDs, id), append(e.NetworkInterfaceIDs, ni.ID)
	}
	return nil
}

func removeEndpointSubnets(c *resource.Change, e *record.VPCEndpoint, subnets []string) error {
	for _, id := range subnets {
		i := slices.Index(e.SubnetIDs, id)
		if i < 0 {
			return wire.Errorf("InvalidParameter", "Subnet %s is not associated with endpoint %s", id, e.ID)
		}
		if _, err := networkinterface.Delete(c, e.NetworkInterfaceIDs[i]); err != nil {
			return err
		}
		e.SubnetIDs, e.NetworkInterfaceIDs = slices.Delete(e.SubnetIDs, i, i+1), slices.Delete(e.NetworkInterfaceIDs, i,
			i+1)
	}
	return nil
}

// DescribeVpcEndpoints lists VPC endpoints.
func (s *Service) DescribeVpcEndpoints(ctx context.Context, in *ec2.DescribeVpcEndpointsInput) (
	*ec2.DescribeVpcEndpointsOutput, error) {
	found, next, err := s.vpcEndpointView.Describe(
		ctx,
		resource.Query{Operation: "DescribeVpcEndpoints", DryRun: in.DryRun, IDs: in.VpcEndpointIds, Filters: in.Filters,
			Max:   in.MaxResults,
			Token: in.NextToken},
	)
	return &ec2.DescribeVpcEndpointsOutput{VpcEndpoints: found, NextToken: next}, err
}

// ModifyVpcEndpoint changes what a VPC endpoint is associated with, its policy or its private DNS.
func (s *Service) ModifyVpcEndpoint(ctx context.Context, in *ec2.ModifyVpcEndpointInput) (
	*ec2.ModifyVpcEndpointOutput, error) {
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		return s.VPCEndpoints.UpdateRecord(c, aws.ToString(in.VpcEndpointId), func(e *record.VPCEndpoint) error {
			if err := c.RequireUnchanged(e.VPCID); err != nil {
				return err
			}
			gateway := e.Type == types.VpcEndpointTypeGateway
			switch {
			case len(in.SubnetConfigurations) > 0:
				return resource.Unsupported("SubnetConfiguration")
			case gateway && len(in.AddSubnetIds)+len(in.RemoveSubnetIds)+len(in.AddSecurityGroupIds)+
				len(in.RemoveSecurityGroupIds) > 0:
				return wire.Errorf("InvalidParameter",
					"Subnets and security groups are for interface endpoints; %s is a gateway endpoint.", e.ID)
			case !gateway && len(in.AddRouteTableIds)+len(in.RemoveRouteTableIds) > 0:
				return wire.Errorf("InvalidParameter",
					"Route tables are for gateway endpoints; %s is an interface endpoint.", e.ID)
			case in.PolicyDocument != nil:
				if err := setEndpointPolicy(c, e, *in.PolicyDocument); err != nil {
					return err
				}
			case aws.ToBool(in.ResetPolicy):
				removeEndpointPolicy(c, e)
			}
			if in.PrivateDnsEnabled != nil {
				e.PrivateDNSEnabled = *in.PrivateDnsEnabled
			}
			if in.IpAddressType != "" {
				e.IPAddressType = in.IpAddressType
			}
			if len(in.AddSecurityGroupIds)+len(in.RemoveSecurityGroupIds) > 0 {
				if err := regroup(c, e, in.AddSecurityGroupIds, in.RemoveSecurityGroupIds); err != nil {
					return err
				}
			}
			for _, step := range []func() error{
				func() error { return removeEndpointRoutes(c, e, in.RemoveRouteTableIds) },
				func() error { return removeEndpointSubnets(c, e, in.RemoveSubnetIds) },
				func() error { return addEndpointSubnets(c, e, in.AddSubnetIds) },
			} {
				if err := step(); err != nil {
					return err
				}
			}
			if !gateway {
				return nil
			}
			return addEndpointRoutes(c, e, in.AddRouteTableIds)
		})
	})
	return &ec2.ModifyVpcEndpointOutput{Return: aws.Bool(err == nil)}, err
}

// regroup changes the security groups of an interface endpoint and of its interfaces.
func regroup(c *resource.Change, e *record.VPCEndpoint, add, remove []string) error {
	wanted := slices.DeleteFunc(slices.Clone(e.SecurityGroupIDs),
		func(id string) bool { return slices.Contains(remove, id) })
	for _, id := range add {
		if !slices.Contains(wanted, id) {
			wanted = append(wanted, id)
		}
	}
	groups, err := networkinterface.SecurityGroups(c, e.VPCID, wanted)
	if err != nil {
		return err
	}
	e.SecurityGroupIDs = groups
	for _, id := range e.NetworkInterfaceIDs {
		if err := c.NetworkInterfaces.UpdateRecord(c, id, func(r *record.NetworkInterface) error {
			r.SecurityGroupIDs = groups
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// DeleteVpcEndpoints deletes VPC endpoints with their routes and interfaces. Those that it could not delete are in the
// answer.
func (s *Service) DeleteVpcEndpoints(ctx context.Context, in *ec2.DeleteVpcEndpointsInput) (
	*ec2.DeleteVpcEndpointsOutput, error) {
	out := &ec2.DeleteVpcEndpointsOutput{Unsuccessful: []types.UnsuccessfulItem{}}
	if len(in.VpcEndpointIds) == 0 {
		return nil, resource.MissingParameter("vpcEndpointId")
	}
	for _, id := range in.VpcEndpointIds {
		err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
			e, err := s.VPCEndpoints.DeleteRecord(c, id)
			if err != nil {
				return err
			}
			removeEndpointPolicy(c, &e)
			// Private copies: removal shortens the lists.
			e.RouteTableIDs, e.SubnetIDs, e.NetworkInterfaceIDs = slices.Clone(e.RouteTableIDs),
				slices.Clone(e.SubnetIDs), slices.Clone(e.NetworkInterfaceIDs)
			if err := removeEndpointRoutes(c, &e, slices.Clone(e.RouteTableIDs)); err != nil {
				return err
			}
			return removeEndpointSubnets(c, &e, slices.Clone(e.SubnetIDs))
		})
		var refused *wire.Error
		switch {
		case err == nil:
		case errors.As(err, &refused) && refused.Code == s.VPCEndpoints.NotFound:
			out.Unsuccessful = append(out.Unsuccessful, types.UnsuccessfulItem{
				ResourceId: aws.String(id), Error: &types.UnsuccessfulItemError{Code: aws.String(refused.Code),
					Message: aws.String(refused.Message)},
			})
		default:
			return nil, err
		}
	}
	return out, nil
}

// DescribeVpcEndpointServices lists the services that have endpoints.
func (s *Service) DescribeVpcEndpointServices(ctx context.Context, in *ec2.DescribeVpcEndpointServicesInput) (
	*ec2.DescribeVpcEndpointServicesOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	var zones []string
	for _, z := range sc.Zones() {
		zones = append(zones, z.Name)
	}
	out := &ec2.DescribeVpcEndpointServicesOutput{ServiceNames: []string{}}
	var items []resource.Item[types.ServiceDetail]
	for _, service := range endpointServices(sc) {
		if len(in.ServiceNames) > 0 && !slices.Contains(in.ServiceNames, service.name) {
			continue
		}
		items = append(
			items,
			resource.Item[types.ServiceDetail]{ID: service.name + " " + string(service.kind), View: types.ServiceDetail{
				AcceptanceRequired: aws.Bool(false), AvailabilityZones: zones, BaseEndpointDnsNames: []string{},
				ManagesVpcEndpoints: aws.Bool(false),
				Owner:               aws.String("amazon"), PrivateDnsName: resource.OrNil(service.domain),
				ServiceName: aws.String(service.name), ServiceRegion: aws.String(sc.Region),
				ServiceType:             []types.ServiceTypeDetail{{ServiceType: types.ServiceType(service.kind)}},
				SupportedIpAddressTypes: []types.ServiceConnectivityType{types.ServiceConnectivityTypeIpv4},
				Tags:                    []types.Tag{}, VpcEndpointPolicySupported: aws.Bool(true),
			}},
		)
	}
	for _, name := range in.ServiceNames {
		if !slices.ContainsFunc(
			items,
			func(i resource.Item[types.ServiceDetail]) bool { return *i.View.ServiceName == name },
		) {
			return nil, wire.Errorf("InvalidServiceName", "The Vpc Endpoint Service '%s' does not exist", name)
		}
	}
	type v = types.ServiceDetail
	details, next, err := resource.DescribeItems(
		ctx,
		resource.Query{Operation: "DescribeVpcEndpointServices", DryRun: in.DryRun, Filters: in.Filters, Max: in.MaxResults,
			Token: in.NextToken},
		items,
		resource.Filters[v]{
			"owner":          resource.StringFilter(func(x v) *string { return x.Owner }),
			"service-name":   resource.StringFilter(func(x v) *string { return x.ServiceName }),
			"service-region": resource.StringFilter(func(x v) *string { return x.ServiceRegion }),
			"service-type": func(x v) []string {
				return resource.CollectValues(x.ServiceType,
					func(t types.ServiceTypeDetail) *types.ServiceType { return &t.ServiceType })
			},
			"supported-ip-address-types": func(x v) []string {
				return resource.CollectValues(x.SupportedIpAddressTypes,
					func(t types.ServiceConnectivityType) *types.ServiceConnectivityType { return &t })
			},
		},
		func(x v) []types.Tag { return x.Tags },
	)
	for _, d := range details {
		if !slices.Contains(out.ServiceNames, *d.ServiceName) {
			out.ServiceNames = append(out.ServiceNames, *d.ServiceName)
		}
	}
	out.ServiceDetails, out.NextToken = details, next
	return out, err
}
