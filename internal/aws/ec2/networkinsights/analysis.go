package networkinsights

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/reachability"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/vpcrule"
)

func (s *Service) newAnalysisView() resource.View[record.NetworkInsightsAnalysis, types.NetworkInsightsAnalysis] {
	type v = types.NetworkInsightsAnalysis
	return resource.View[record.NetworkInsightsAnalysis, v]{
		Kind: s.NetworkInsightsAnalyses,
		Show: func(sc resource.Scope, r record.NetworkInsightsAnalysis) v {
			var view v
			if len(r.Result) > 0 {
				resource.MustRead(view, json.Unmarshal(r.Result, &view))
			}
			view.FilterInArns, view.FilterOutArns = r.FilterInARNs, r.FilterOutARNs
			view.NetworkInsightsAnalysisId = aws.String(r.ID)
			view.NetworkInsightsAnalysisArn = aws.String(sc.ARN(types.ResourceTypeNetworkInsightsAnalysis, r.ID))
			view.NetworkInsightsPathId, view.StartDate = aws.String(r.PathID), aws.Time(r.CreatedAt)
			view.Status, view.StatusMessage = r.Status, resource.OrNil(r.StatusMessage)
			if r.Status == types.AnalysisStatusSucceeded {
				view.NetworkPathFound = aws.Bool(r.PathFound)
			}
			view.Tags = s.ListTagSet(sc, r.ID)
			return view
		},
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"path-found": resource.BoolFilter(func(x v) *bool { return x.NetworkPathFound }),
			"status":     resource.EnumFilter(func(x v) types.AnalysisStatus { return x.Status }),
		},
	}
}

// analysisHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) analysisHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.StartNetworkInsightsAnalysis, s.startTargets),
		wire.Handle(s.DescribeNetworkInsightsAnalyses, resource.OnRegion),
		wire.Handle(s.DeleteNetworkInsightsAnalysis,
			resource.Touching[ec2.DeleteNetworkInsightsAnalysisInput](s.Records)),
	}
}

// described are the actions that show what an analysis reads. AWS calls them with the permissions of who starts it.
// https://docs.aws.amazon.com/vpc/latest/reachability/identity-access-management.html
var described = []string{"ec2:DescribeInstances", "ec2:DescribeInternetGateways", "ec2:DescribeNatGateways",
	"ec2:DescribeNetworkAcls", "ec2:DescribeNetworkInterfaces", "ec2:DescribePrefixLists", "ec2:DescribeRouteTables",
	"ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcEndpoints", "ec2:DescribeVpcs",
	"elasticloadbalancing:DescribeListeners", "elasticloadbalancing:DescribeLoadBalancers",
	"elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTargetHealth"}

// startTargets returns the path, the new analysis, and all that an analysis shows.
func (s *Service) startTargets(ctx context.Context, action string, in *ec2.StartNetworkInsightsAnalysisInput) (
	[]wire.Target, error) {
	targets, err := resource.Creating[ec2.StartNetworkInsightsAnalysisInput](s.Records,
		types.ResourceTypeNetworkInsightsAnalysis)(ctx, action, in)
	if err != nil {
		return nil, err
	}
	for _, reads := range described {
		more, err := resource.OnRegion(ctx, reads, in)
		if err != nil {
			return nil, err
		}
		targets = append(targets, more...)
	}
	return targets, nil
}

// StartNetworkInsightsAnalysis analyzes a path. As on AWS, the answer says that the analysis runs.
func (s *Service) StartNetworkInsightsAnalysis(ctx context.Context, in *ec2.StartNetworkInsightsAnalysisInput) (
	*ec2.StartNetworkInsightsAnalysisOutput, error) {
	out, err := s.analysisView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications,
		Token: in.ClientToken, Request: in}, func(c *resource.Change, id string) error {
		path, err := s.NetworkInsightsPaths.GetRecord(c.Scope, in.NetworkInsightsPathId)
		if err != nil {
			return err
		}
		if len(in.AdditionalAccounts) > 0 {
			return resource.Unsupported("AdditionalAccounts")
		}
		for _, arn := range slices.Concat(in.FilterInArns, in.FilterOutArns) {
			if !strings.HasPrefix(arn, "arn:") {
				return resource.Invalid("Invalid ARN: '%s'.", arn)
			}
		}
		if err := s.NetworkInsightsAnalyses.CheckQuota(c.Scope, resource.MaxNetworkInsightsAnalyses, nil,
			"NetworkInsightsAnalysisLimitExceeded", "network insights analyses"); err != nil {
			return err
		}
		// Written, so that who deletes the path sees the analysis.
		if err := s.NetworkInsightsPaths.ClaimRecord(c, path.ID); err != nil {
			return err
		}
		r := record.NetworkInsightsAnalysis{EC2Resource: c.NewResource(id, in.ClientToken), PathID: path.ID,
			FilterInARNs: in.FilterInArns, FilterOutARNs: in.FilterOutArns}
		if err := s.analyze(c.Scope, path, &r); err != nil {
			return err
		}
		s.NetworkInsightsAnalyses.CreateRecord(c, r)
		return nil
	})
	if out != nil {
		out.Status, out.StatusMessage, out.NetworkPathFound = types.AnalysisStatusRunning, nil, nil
		out.ForwardPathComponents, out.ReturnPathComponents, out.Explanations = nil, nil, nil
	}
	return &ec2.StartNetworkInsightsAnalysisOutput{NetworkInsightsAnalysis: out}, err
}

// analyze fills in the result of an analysis.
func (s *Service) analyze(sc resource.Scope, path record.NetworkInsightsPath, r *record.NetworkInsightsAnalysis) error {
	fail := func(message string) error {
		r.Status, r.StatusMessage = types.AnalysisStatusFailed, message
		return nil
	}
	vpc, err := s.vpcOf(sc, path.Source)
	if resource.IsRefusal(err) {
		return fail(err.Error())
	}
	if err != nil {
		return err
	}
	if path.Destination != "" {
		if _, err := s.vpcOf(sc, path.Destination); resource.IsRefusal(err) {
			return fail(err.Error())
		} else if err != nil {
			return err
		}
	}
	if vpc == "" {
		return setResult(r, reachability.Result{Explanations: []types.Explanation{{
			ExplanationCode: aws.String("BAD_STATE_ATTACHMENT"),
			Component:       &types.AnalysisComponent{Id: &path.Source, Arn: s.arnOf(sc, path.Source)}}}})
	}
	network, err := reachability.Load(sc, s.Store, sc.Key(vpc))
	if err != nil {
		return fmt.Errorf("read VPC %s: %w", vpc, err)
	}
	result, err := network.Analyze(sc, pathOf(path, *r))
	if errors.Is(err, reachability.ErrTooComplex) {
		return fail(err.Error())
	}
	if err != nil {
		return err
	}
	return setResult(r, result)
}

// setResult keeps the result of an analysis that succeeded.
func setResult(r *record.NetworkInsightsAnalysis, result reachability.Result) (err error) {
	r.Status, r.PathFound = types.AnalysisStatusSucceeded, result.Found
	r.Result, err = compact(types.NetworkInsightsAnalysis{ForwardPathComponents: result.Forward,
		ReturnPathComponents: result.Return, Explanations: result.Explanations})
	return err
}

// compact encodes a shape without its empty members, which are most.
func compact(shape types.NetworkInsightsAnalysis) (json.RawMessage, error) {
	all, err := json.Marshal(shape)
	if err != nil {
		return nil, err
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(all))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(withoutEmpty(tree))
}

// withoutEmpty removes null and empty members of objects.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if member = withoutEmpty(member); member == nil || member == "" {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
	}
	return v
}

// vpcOf returns the VPC of a source or destination; empty for an internet gateway that is attached to none.
func (s *Service) vpcOf(sc resource.Scope, id string) (string, error) {
	switch {
	case strings.HasPrefix(id, s.Instances.Prefix):
		r, err := s.Instances.GetRecord(sc, &id)
		return r.VPCID, err
	case strings.HasPrefix(id, s.InternetGateways.Prefix):
		r, err := s.InternetGateways.GetRecord(sc, &id)
		return r.VPCID, err
	case strings.HasPrefix(id, s.VPCEndpoints.Prefix):
		r, err := s.VPCEndpoints.GetRecord(sc, &id)
		return r.VPCID, err
	}
	r, err := s.NetworkInterfaces.GetRecord(sc, &id)
	return r.VPCID, err
}

// pathOf returns what to look for a way for.
func pathOf(p record.NetworkInsightsPath, r record.NetworkInsightsAnalysis) reachability.Path {
	path := reachability.Path{Protocol: vpcrule.TCP, Source: p.Source, Destination: p.Destination,
		AtSource: filterOf(p.FilterAtSource), AtDestination: filterOf(p.FilterAtDestination),
		Through: r.FilterInARNs, Without: r.FilterOutARNs}
	if p.Protocol == types.ProtocolUdp {
		path.Protocol = vpcrule.UDP
	}
	if a, err := netip.ParseAddr(p.SourceIP); err == nil {
		path.AtSource.Source = a
	}
	if a, err := netip.ParseAddr(p.DestinationIP); err == nil {
		path.AtDestination.Destination = a
	}
	if port := p.DestinationPort; port != nil {
		path.AtSource.DestinationPort = &vpcrule.Ports{From: *port, To: *port}
	}
	return path
}

func filterOf(f *types.PathFilter) (out reachability.Filter) {
	if f == nil {
		return out
	}
	out.Source, _ = netip.ParseAddr(aws.ToString(f.SourceAddress))
	out.Destination, _ = netip.ParseAddr(aws.ToString(f.DestinationAddress))
	if r := f.SourcePortRange; r != nil {
		out.SourcePorts = &vpcrule.Ports{From: *r.FromPort, To: *r.ToPort}
	}
	if r := f.DestinationPortRange; r != nil {
		out.DestinationPort = &vpcrule.Ports{From: *r.FromPort, To: *r.ToPort}
	}
	return out
}

// DescribeNetworkInsightsAnalyses lists analyses, of one path where the request names it.
func (s *Service) DescribeNetworkInsightsAnalyses(ctx context.Context, in *ec2.DescribeNetworkInsightsAnalysesInput) (
	*ec2.DescribeNetworkInsightsAnalysesOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	q := resource.Query{Operation: "DescribeNetworkInsightsAnalyses", DryRun: in.DryRun,
		IDs: in.NetworkInsightsAnalysisIds, Filters: in.Filters, Max: in.MaxResults, Token: in.NextToken}
	if err := q.CheckPage(); err != nil {
		return nil, err
	}
	if in.NetworkInsightsPathId != nil {
		if _, err := s.NetworkInsightsPaths.GetRecord(sc, in.NetworkInsightsPathId); err != nil {
			return nil, err
		}
	}
	rows, err := s.NetworkInsightsAnalyses.ListByID(sc, in.NetworkInsightsAnalysisIds)
	if err != nil {
		return nil, err
	}
	var items []resource.Item[types.NetworkInsightsAnalysis]
	for _, r := range rows {
		if in.NetworkInsightsPathId != nil && r.PathID != *in.NetworkInsightsPathId ||
			in.AnalysisStartTime != nil && r.CreatedAt.Before(*in.AnalysisStartTime) ||
			in.AnalysisEndTime != nil && r.CreatedAt.Truncate(time.Millisecond).After(*in.AnalysisEndTime) {
			continue
		}
		items = append(items, resource.Item[types.NetworkInsightsAnalysis]{ID: r.ID, View: s.analysisView.Show(sc, r)})
	}
	found, next, err := resource.DescribeItems(ctx, q, items, s.analysisView.Filters, s.analysisView.Tagged)
	return &ec2.DescribeNetworkInsightsAnalysesOutput{NetworkInsightsAnalyses: found, NextToken: next}, err
}

// DeleteNetworkInsightsAnalysis deletes an analysis.
func (s *Service) DeleteNetworkInsightsAnalysis(ctx context.Context, in *ec2.DeleteNetworkInsightsAnalysisInput) (
	*ec2.DeleteNetworkInsightsAnalysisOutput, error) {
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		_, err := s.NetworkInsightsAnalyses.DeleteRecord(c, aws.ToString(in.NetworkInsightsAnalysisId))
		return err
	})
	return &ec2.DeleteNetworkInsightsAnalysisOutput{NetworkInsightsAnalysisId: in.NetworkInsightsAnalysisId}, err
}
