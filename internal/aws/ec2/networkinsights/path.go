package networkinsights

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) newPathView() resource.View[record.NetworkInsightsPath, types.NetworkInsightsPath] {
	type v = types.NetworkInsightsPath
	filters := resource.Filters[v]{
		"destination": resource.StringFilter(func(x v) *string { return x.Destination }),
		"protocol":    resource.EnumFilter(func(x v) types.Protocol { return x.Protocol }),
		"source":      resource.StringFilter(func(x v) *string { return x.Source }),
	}
	for at, filter := range map[string]func(v) *types.PathFilter{
		"filter-at-source.":      func(x v) *types.PathFilter { return x.FilterAtSource },
		"filter-at-destination.": func(x v) *types.PathFilter { return x.FilterAtDestination },
	} {
		for name, value := range map[string]func(types.PathFilter) *string{
			"source-address":         func(f types.PathFilter) *string { return f.SourceAddress },
			"source-port-range":      func(f types.PathFilter) *string { return rangeText(f.SourcePortRange) },
			"destination-address":    func(f types.PathFilter) *string { return f.DestinationAddress },
			"destination-port-range": func(f types.PathFilter) *string { return rangeText(f.DestinationPortRange) },
		} {
			filters[at+name] = resource.StringFilter(func(x v) *string {
				if f := filter(x); f != nil {
					return value(*f)
				}
				return nil
			})
		}
	}
	return resource.View[record.NetworkInsightsPath, v]{
		Kind: s.NetworkInsightsPaths,
		Show: func(sc resource.Scope, r record.NetworkInsightsPath) v {
			return v{
				CreatedDate: aws.Time(r.CreatedAt), NetworkInsightsPathId: aws.String(r.ID),
				NetworkInsightsPathArn: aws.String(sc.ARN(types.ResourceTypeNetworkInsightsPath, r.ID)),
				Source:                 aws.String(r.Source), SourceArn: s.arnOf(sc, r.Source),
				SourceIp:    resource.OrNil(r.SourceIP),
				Destination: resource.OrNil(r.Destination), DestinationArn: s.arnOf(sc, r.Destination),
				DestinationIp: resource.OrNil(r.DestinationIP), DestinationPort: r.DestinationPort, Protocol: r.Protocol,
				FilterAtSource: r.FilterAtSource, FilterAtDestination: r.FilterAtDestination,
				Tags: s.ListTagSet(sc, r.ID),
			}
		},
		Tagged:  func(x v) []types.Tag { return x.Tags },
		Filters: filters,
	}
}

// rangeText renders a range of ports as filters have it.
func rangeText(r *types.FilterPortRange) *string {
	if r == nil {
		return nil
	}
	return aws.String(fmt.Sprintf("%d-%d", aws.ToInt32(r.FromPort), aws.ToInt32(r.ToPort)))
}

// arnOf returns the ARN of a source or destination; nil for none.
func (s *Service) arnOf(sc resource.Scope, id string) *string {
	kind, ok := s.KindForID(id)
	if !ok {
		return nil
	}
	return aws.String(sc.ARN(kind.IDFormat().Resource, id))
}

// pathHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) pathHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateNetworkInsightsPath, resource.Creating[ec2.CreateNetworkInsightsPathInput](s.Records,
			types.ResourceTypeNetworkInsightsPath)),
		wire.Handle(s.DescribeNetworkInsightsPaths, resource.OnRegion),
		wire.Handle(s.DeleteNetworkInsightsPath, resource.Touching[ec2.DeleteNetworkInsightsPathInput](s.Records)),
	}
}

// CreateNetworkInsightsPath makes a path, which nothing analyzes until that is asked for.
func (s *Service) CreateNetworkInsightsPath(ctx context.Context, in *ec2.CreateNetworkInsightsPathInput) (
	*ec2.CreateNetworkInsightsPathOutput, error) {
	out, err := s.pathView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications,
		Token: in.ClientToken, Request: in}, func(c *resource.Change, id string) error {
		r := record.NetworkInsightsPath{EC2Resource: c.NewResource(id, in.ClientToken), Protocol: in.Protocol,
			SourceIP: aws.ToString(in.SourceIp), DestinationIP: aws.ToString(in.DestinationIp),
			DestinationPort: in.DestinationPort}
		if in.Protocol == "" {
			return resource.MissingParameter("protocol")
		}
		if err := resource.CheckEnum(in.Protocol, "protocol"); err != nil {
			return err
		}
		if err := s.setEnds(c, in, &r); err != nil {
			return err
		}
		if err := setFilters(in, &r); err != nil {
			return err
		}
		if err := s.NetworkInsightsPaths.CheckQuota(c.Scope, resource.MaxNetworkInsightsPaths, nil,
			"NetworkInsightsPathLimitExceeded", "network insights paths"); err != nil {
			return err
		}
		s.NetworkInsightsPaths.CreateRecord(c, r)
		return nil
	})
	return &ec2.CreateNetworkInsightsPathOutput{NetworkInsightsPath: out}, err
}

// setEnds sets where a path begins and ends.
func (s *Service) setEnds(c *resource.Change, in *ec2.CreateNetworkInsightsPathInput,
	r *record.NetworkInsightsPath) (err error) {
	if aws.ToString(in.Source) == "" {
		return resource.MissingParameter("source")
	}
	if r.Source, err = s.checkEnd(c.Scope, *in.Source, "source"); err != nil {
		return err
	}
	if aws.ToString(in.Destination) != "" {
		if r.Destination, err = s.checkEnd(c.Scope, *in.Destination, "destination"); err != nil {
			return err
		}
	}
	f := in.FilterAtDestination
	switch {
	case r.Destination == "" && in.DestinationIp == nil && (f == nil || f.DestinationAddress == nil):
		return wire.Errorf("MissingParameter",
			"The request must contain the parameter destination, or the address of the destination.")
	case r.Source == r.Destination:
		return wire.Errorf("InvalidParameterCombination", "The source and the destination must be different resources.")
	case in.FilterAtSource != nil && (in.SourceIp != nil || in.DestinationPort != nil):
		return wire.Errorf("InvalidParameterCombination",
			"The parameter filterAtSource cannot be used with the parameters sourceIp and destinationPort.")
	case f != nil && in.DestinationIp != nil:
		return wire.Errorf("InvalidParameterCombination",
			"The parameter filterAtDestination cannot be used with the parameter destinationIp.")
	}
	return nil
}

// checkEnd returns the ID of a source or destination.
func (s *Service) checkEnd(sc resource.Scope, named, parameter string) (string, error) {
	id := resource.ResourceID(named)
	kind, ok := s.KindForID(id)
	supported := []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeInternetGateway,
		types.ResourceTypeNetworkInterface}
	if parameter == "destination" {
		supported = append(supported, types.ResourceTypeVpcEndpoint)
	}
	for _, of := range supported {
		if !ok || kind.IDFormat().Resource != of {
			continue
		}
		if named != id && named != sc.ARN(of, id) {
			return "", resource.InvalidValue(named, parameter, "It must be a resource of this account and Region.")
		}
		if err := kind.CheckExists(sc, id); err != nil {
			return "", err
		}
		if of == types.ResourceTypeVpcEndpoint {
			endpoint, err := s.VPCEndpoints.GetRecord(sc, &id)
			if err != nil {
				return "", err
			}
			if endpoint.Type != types.VpcEndpointTypeInterface {
				return "", resource.InvalidValue(named, parameter, "A gateway endpoint leads nowhere in coracle.")
			}
		}
		return id, nil
	}
	names := make([]string, len(supported))
	for i, of := range supported {
		names[i] = string(of)
	}
	return "", resource.InvalidValue(named, parameter, "Coracle analyzes paths with one of: "+
		strings.Join(names, ", ")+".")
}

// setFilters checks addresses and ports of a path.
func setFilters(in *ec2.CreateNetworkInsightsPathInput, r *record.NetworkInsightsPath) error {
	for parameter, value := range map[string]string{"sourceIp": r.SourceIP, "destinationIp": r.DestinationIP} {
		if err := checkAddress(&value, parameter); err != nil {
			return err
		}
	}
	if p := r.DestinationPort; p != nil && (*p < 0 || *p > 65535) {
		return resource.InvalidValue(*p, "destinationPort", "Expecting a value between 0 and 65535.")
	}
	var err error
	if r.FilterAtSource, err = filter(in.FilterAtSource, "filterAtSource"); err != nil {
		return err
	}
	r.FilterAtDestination, err = filter(in.FilterAtDestination, "filterAtDestination")
	return err
}

// filter checks a filter, and returns it as paths show it.
func filter(f *types.PathRequestFilter, parameter string) (*types.PathFilter, error) {
	if f == nil {
		return nil, nil
	}
	if err := checkAddress(f.SourceAddress, parameter+".sourceAddress"); err != nil {
		return nil, err
	}
	if err := checkAddress(f.DestinationAddress, parameter+".destinationAddress"); err != nil {
		return nil, err
	}
	out := &types.PathFilter{SourceAddress: f.SourceAddress, DestinationAddress: f.DestinationAddress}
	for _, ports := range []struct {
		of   *types.RequestFilterPortRange
		to   **types.FilterPortRange
		name string
	}{
		{f.SourcePortRange, &out.SourcePortRange, ".sourcePortRange"},
		{f.DestinationPortRange, &out.DestinationPortRange, ".destinationPortRange"},
	} {
		if ports.of == nil {
			continue
		}
		from, to := aws.ToInt32(ports.of.FromPort), aws.ToInt32(ports.of.ToPort)
		if ports.of.FromPort == nil || ports.of.ToPort == nil || from < 0 || to > 65535 || from > to {
			return nil, resource.InvalidValue(fmt.Sprintf("%d-%d", from, to), parameter+ports.name,
				"Expecting a range of ports between 0 and 65535.")
		}
		*ports.to = &types.FilterPortRange{FromPort: ports.of.FromPort, ToPort: ports.of.ToPort}
	}
	return out, nil
}

// checkAddress refuses what is no IPv4 address; empty is not given.
func checkAddress(value *string, parameter string) error {
	if aws.ToString(value) == "" {
		return nil
	}
	if a, err := netip.ParseAddr(*value); err != nil || !a.Is4() {
		return resource.InvalidValue(*value, parameter, "Expecting an IPv4 address.")
	}
	return nil
}

// DescribeNetworkInsightsPaths lists paths.
func (s *Service) DescribeNetworkInsightsPaths(ctx context.Context, in *ec2.DescribeNetworkInsightsPathsInput) (
	*ec2.DescribeNetworkInsightsPathsOutput, error) {
	found, next, err := s.pathView.Describe(ctx, resource.Query{Operation: "DescribeNetworkInsightsPaths",
		DryRun: in.DryRun, IDs: in.NetworkInsightsPathIds, Filters: in.Filters, Max: in.MaxResults, Token: in.NextToken})
	return &ec2.DescribeNetworkInsightsPathsOutput{NetworkInsightsPaths: found, NextToken: next}, err
}

// DeleteNetworkInsightsPath deletes a path without analyses.
func (s *Service) DeleteNetworkInsightsPath(ctx context.Context, in *ec2.DeleteNetworkInsightsPathInput) (
	*ec2.DeleteNetworkInsightsPathOutput, error) {
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		path, err := s.NetworkInsightsPaths.DeleteRecord(c, aws.ToString(in.NetworkInsightsPathId))
		if err != nil {
			return err
		}
		used, err := s.NetworkInsightsAnalyses.HasMatch(c.Scope,
			func(r record.NetworkInsightsAnalysis) bool { return r.PathID == path.ID })
		if err == nil && used {
			err = wire.Errorf("AnalysisExistsForNetworkInsightsPath",
				"The network insights path '%s' has analyses; delete them first.", path.ID)
		}
		return err
	})
	return &ec2.DeleteNetworkInsightsPathOutput{NetworkInsightsPathId: in.NetworkInsightsPathId}, err
}
