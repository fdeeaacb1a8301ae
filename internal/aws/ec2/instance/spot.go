package instance

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

// spotPrice formats a price as EC2 does.
func spotPrice(usd float64) string { return strconv.FormatFloat(usd, 'f', 6, 64) }

// readSpot checks what a request wants of a spot instance.
func readSpot(o *types.SpotMarketOptions, kind instancetype.Type) error {
	if err := resource.CheckEnum(o.SpotInstanceType, "spotInstanceType"); err != nil {
		return err
	}
	if err := resource.CheckEnum(o.InstanceInterruptionBehavior, "instanceInterruptionBehavior"); err != nil {
		return err
	}
	switch {
	case o.BlockDurationMinutes != nil:
		return resource.Unsupported("BlockDurationMinutes")
	case o.SpotInstanceType == types.SpotInstanceTypePersistent:
		return resource.Unsupported("SpotInstanceType=persistent")
	case cmp.Or(o.InstanceInterruptionBehavior,
		types.InstanceInterruptionBehaviorTerminate) != types.InstanceInterruptionBehaviorTerminate:
		return wire.Errorf("InvalidParameterCombination",
			"The instance interruption behavior '%s' requires a persistent Spot Instance request.",
			o.InstanceInterruptionBehavior)
	}
	if max := aws.ToString(o.MaxPrice); max != "" {
		usd, err := strconv.ParseFloat(max, 64)
		if err != nil || usd <= 0 {
			return resource.InvalidValue(max, "spotPrice", "Expecting a positive number.")
		}
		if usd < kind.SpotUSD() {
			return wire.Errorf(
				"SpotMaxPriceTooLow",
				"Your Spot request price of %s is lower than the minimum required Spot request fulfillment price of %s.", max,
				spotPrice(kind.SpotUSD()),
			)
		}
	}
	return nil
}

// newSpotRequest makes the request of a new spot instance.
func newSpotRequest(c *resource.Change, r *record.Instance, l *Launch) error {
	request := record.SpotRequest{
		EC2Resource: c.NewResource(resource.NewShortID(c.SpotRequests.Prefix), nil), InstanceID: r.ID,
		MaxPrice: aws.ToString(l.spot.MaxPrice), Behavior: types.InstanceInterruptionBehaviorTerminate,
		ValidUntil: aws.ToTime(l.spot.ValidUntil),
	}
	if request.MaxPrice == "" {
		request.MaxPrice = spotPrice(l.instanceType.OnDemandUSD)
	}
	r.Lifecycle, r.SpotInstanceRequestID = types.InstanceLifecycleTypeSpot, request.ID
	c.SpotRequests.CreateRecord(c, request)
	return tagLaunched(c, types.ResourceTypeSpotInstancesRequest, request.ID, l, nil)
}

func (s *Service) newSpotRequestView() resource.View[record.SpotRequest, types.SpotInstanceRequest] {
	type v = types.SpotInstanceRequest
	launched := func(values func(types.LaunchSpecification) []string) func(v) []string {
		return func(x v) []string { return values(*x.LaunchSpecification) }
	}
	none := func(v) []string { return nil }
	return resource.View[record.SpotRequest, v]{
		Kind:   s.SpotRequests,
		Show:   s.viewSpotRequest,
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"availability-zone-group": none,
			"create-time":             resource.TimeFilter(func(x v) *time.Time { return x.CreateTime }),
			"fault-code":              none, "fault-message": none,
			"instance-id":  resource.StringFilter(func(x v) *string { return x.InstanceId }),
			"launch-group": resource.StringFilter(func(x v) *string { return x.LaunchGroup }),
			"launch.image-id": launched(
				resource.StringFilter(func(l types.LaunchSpecification) *string { return l.ImageId })),
			"launch.instance-type": launched(
				resource.EnumFilter(func(l types.LaunchSpecification) types.InstanceType { return l.InstanceType })),
			"launch.key-name": launched(
				resource.StringFilter(func(l types.LaunchSpecification) *string { return l.KeyName })),
			"launch.group-id": launched(func(l types.LaunchSpecification) []string {
				return resource.CollectValues(l.SecurityGroups, func(g types.GroupIdentifier) *string { return g.GroupId })
			}),
			"launch.group-name": launched(func(l types.LaunchSpecification) []string {
				return resource.CollectValues(l.SecurityGroups, func(g types.GroupIdentifier) *string { return g.GroupName })
			}),
			"launch.monitoring-enabled": launched(
				resource.BoolFilter(func(l types.LaunchSpecification) *bool { return l.Monitoring.Enabled })),
			"launched-availability-zone": resource.StringFilter(func(x v) *string { return x.LaunchedAvailabilityZone }),
			"network-interface.subnet-id": launched(
				resource.StringFilter(func(l types.LaunchSpecification) *string { return l.SubnetId })),
			"product-description": resource.EnumFilter(
				func(x v) types.RIProductDescription { return x.ProductDescription }),
			"spot-instance-request-id": resource.StringFilter(func(x v) *string { return x.SpotInstanceRequestId }),
			"spot-price":               resource.StringFilter(func(x v) *string { return x.SpotPrice }),
			"state":                    resource.EnumFilter(func(x v) types.SpotInstanceState { return x.State }),
			"status-code":              resource.StringFilter(func(x v) *string { return x.Status.Code }),
			"status-message":           resource.StringFilter(func(x v) *string { return x.Status.Message }),
			"type":                     resource.EnumFilter(func(x v) types.SpotInstanceType { return x.Type }),
			"valid-from":               resource.TimeFilter(func(x v) *time.Time { return x.ValidFrom }),
			"valid-until":              resource.TimeFilter(func(x v) *time.Time { return x.ValidUntil }),
		},
	}
}

// spotState returns the state and status of a spot request.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-request-status.html
func spotState(r record.SpotRequest, holder record.Instance) (types.SpotInstanceState, types.SpotInstanceStatus) {
	status := func(code, message string, at time.Time) types.SpotInstanceStatus {
		return types.SpotInstanceStatus{Code: aws.String(code), Message: aws.String(message), UpdateTime: aws.Time(at)}
	}
	ended := holder.Wanted == types.InstanceStateNameTerminated
	switch {
	case !r.Cancelled.IsZero() && !ended:
		return types.SpotInstanceStateCancelled, status("request-canceled-and-instance-running",
			"Your Spot request is canceled, but your instance is still running.", r.Cancelled)
	case !r.Cancelled.IsZero():
		return types.SpotInstanceStateCancelled, status("canceled-before-fulfillment", "Your Spot request is canceled.",
			r.Cancelled)
	case ended && holder.StateReasonCode == spotTermination:
		return types.SpotInstanceStateClosed, status("instance-terminated-no-capacity",
			"Your Spot instance was terminated because there is no Spot capacity available.", holder.WantedSince)
	case ended && holder.StateReasonCode == UserInitiatedShutdown:
		return types.SpotInstanceStateClosed, status("instance-terminated-by-user",
			"Spot Instance terminated due to user-initiated termination.", holder.WantedSince)
	case ended:
		return types.SpotInstanceStateClosed, status("system-error", holder.StateReasonMessage, holder.WantedSince)
	case !holder.SpotInterruption.IsZero():
		return types.SpotInstanceStateActive, status("marked-for-termination",
			"Your Spot Instance is marked for termination.", holder.SpotInterruption)
	}
	return types.SpotInstanceStateActive, status("fulfilled", "Your Spot request is fulfilled.", r.CreatedAt)
}

// spotTermination is the state reason of an instance that was interrupted.
const spotTermination = "Server.SpotInstanceTermination"

func (s *Service) viewSpotRequest(sc resource.Scope, r record.SpotRequest) types.SpotInstanceRequest {
	holder := resource.MustRead(s.Instances.Table.Get(sc, sc.Key(r.InstanceID))).Value
	state, status := spotState(r, holder)
	z, _ := sc.FindZone(holder.AvailabilityZone)
	v := types.SpotInstanceRequest{
		CreateTime: aws.Time(r.CreatedAt), InstanceId: aws.String(r.InstanceID),
		InstanceInterruptionBehavior: r.Behavior, LaunchGroup: resource.OrNil(r.LaunchGroup),
		LaunchedAvailabilityZone: aws.String(holder.AvailabilityZone), LaunchedAvailabilityZoneId: aws.String(z.ID),
		ProductDescription:    types.RIProductDescriptionLinuxUnix,
		SpotInstanceRequestId: aws.String(r.ID), SpotPrice: aws.String(r.MaxPrice), State: state, Status: &status,
		Tags: s.ListTagSet(sc, r.ID), Type: types.SpotInstanceTypeOneTime,
		LaunchSpecification: &types.LaunchSpecification{
			EbsOptimized: aws.Bool(holder.EBSOptimized), ImageId: aws.String(holder.ImageID),
			InstanceType: holder.InstanceType, KeyName: resource.OrNil(holder.KeyName),
			Monitoring:     &types.RunInstancesMonitoringEnabled{Enabled: aws.Bool(holder.DetailedMonitoring)},
			Placement:      &types.SpotPlacement{AvailabilityZone: aws.String(holder.AvailabilityZone)},
			SecurityGroups: []types.GroupIdentifier{}, SubnetId: aws.String(holder.SubnetID),
		},
	}
	if !r.ValidUntil.IsZero() {
		v.ValidUntil = aws.Time(r.ValidUntil)
	}
	if holder.InstanceProfileARN != "" {
		v.LaunchSpecification.IamInstanceProfile = &types.IamInstanceProfileSpecification{
			Arn: aws.String(holder.InstanceProfileARN)}
	}
	if ports := resource.MustRead(s.InterfacesOf(sc, r.InstanceID)); len(ports) > 0 {
		v.LaunchSpecification.SecurityGroups = s.SecurityGroupIdentifiers(sc, ports[0].SecurityGroupIDs)
	}
	return v
}

// spotHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) spotHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.RequestSpotInstances, s.spotTargets),
		wire.Handle(s.DescribeSpotInstanceRequests, resource.OnRegion),
		wire.Handle(s.CancelSpotInstanceRequests, resource.Touching[ec2.CancelSpotInstanceRequestsInput](s.Records)),
		wire.Handle(s.DescribeSpotPriceHistory, resource.OnRegion),
	}
}

// spotTargets returns the authorization targets of a spot request: the resources that its launch uses and creates.
func (s *Service) spotTargets(
	ctx context.Context, action string, request *ec2.RequestSpotInstancesInput,
) ([]wire.Target, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	launch, err := spotLaunch(request, s.Now())
	if err != nil {
		return resource.OnRegion(ctx, action, request) // the operation says what is wrong, to those who may ask
	}
	return s.launchTargets(sc, action, "RequestSpotInstances", launch, false), nil
}

// RequestSpotInstances launches spot instances, for which there is always room.
func (s *Service) RequestSpotInstances(ctx context.Context, in *ec2.RequestSpotInstancesInput) (
	*ec2.RequestSpotInstancesOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	request, err := spotLaunch(in, s.Now())
	if err != nil {
		return nil, err
	}
	l, err := s.ReadLaunch(sc, request, false)
	if err != nil {
		return nil, err
	}
	l.asked = in
	launched, err := s.LaunchInstances(sc, l)
	if err != nil {
		return nil, err
	}
	out := &ec2.RequestSpotInstancesOutput{SpotInstanceRequests: []types.SpotInstanceRequest{}}
	for _, r := range launched {
		row, err := s.SpotRequests.Get(sc, r.SpotInstanceRequestID)
		if err != nil {
			return nil, err
		}
		out.SpotInstanceRequests = append(out.SpotInstanceRequests, s.viewSpotRequest(sc, row.Value))
	}
	return out, nil
}

// spotLaunch returns the launch that a spot request asks for.
func spotLaunch(in *ec2.RequestSpotInstancesInput, now time.Time) (*ec2.RunInstancesInput, error) {
	spec := in.LaunchSpecification
	switch {
	case spec == nil:
		return nil, resource.MissingParameter("LaunchSpecification")
	case in.ValidFrom != nil && in.ValidFrom.After(now):
		return nil, resource.Unsupported("ValidFrom in the future")
	case in.ValidUntil != nil && in.ValidUntil.Before(now):
		return nil, resource.InvalidValue(
			in.ValidUntil.UTC().Format(time.RFC3339), "validUntil", "The time lies in the past.",
		)
	case in.InstanceCount != nil && *in.InstanceCount < 1:
		return nil, resource.InvalidValue(*in.InstanceCount, "instanceCount", "Expected a positive integer.")
	case aws.ToString(in.AvailabilityZoneGroup) != "":
		return nil, resource.Unsupported("AvailabilityZoneGroup")
	}
	count := aws.Int32(1)
	if in.InstanceCount != nil {
		count = in.InstanceCount
	}
	request := &ec2.RunInstancesInput{
		MinCount: count, MaxCount: count, ClientToken: in.ClientToken, DryRun: in.DryRun,
		BlockDeviceMappings: spec.BlockDeviceMappings, EbsOptimized: spec.EbsOptimized,
		IamInstanceProfile: spec.IamInstanceProfile, ImageId: spec.ImageId,
		InstanceType: spec.InstanceType, KernelId: spec.KernelId, KeyName: spec.KeyName, Monitoring: spec.Monitoring,
		NetworkInterfaces: spec.NetworkInterfaces,
		RamdiskId:         spec.RamdiskId, SecurityGroupIds: spec.SecurityGroupIds, SecurityGroups: spec.SecurityGroups,
		SubnetId: spec.SubnetId, UserData: spec.UserData,
		InstanceMarketOptions: &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot,
			SpotOptions: &types.SpotMarketOptions{
				BlockDurationMinutes:         in.BlockDurationMinutes,
				InstanceInterruptionBehavior: in.InstanceInterruptionBehavior, MaxPrice: in.SpotPrice,
				SpotInstanceType: in.Type, ValidUntil: in.ValidUntil,
			}},
	}
	if p := spec.Placement; p != nil {
		request.Placement = &types.Placement{AvailabilityZone: p.AvailabilityZone, GroupName: p.GroupName,
			Tenancy: p.Tenancy}
	}
	for _, tags := range in.TagSpecifications {
		if tags.ResourceType != types.ResourceTypeSpotInstancesRequest {
			return nil, resource.Invalid("'%s' is not a valid taggable resource type for this operation.", tags.ResourceType)
		}
		request.TagSpecifications = append(request.TagSpecifications, tags)
	}
	return request, nil
}

// DescribeSpotInstanceRequests lists spot requests.
func (s *Service) DescribeSpotInstanceRequests(ctx context.Context, in *ec2.DescribeSpotInstanceRequestsInput) (
	*ec2.DescribeSpotInstanceRequestsOutput, error) {
	found, next, err := s.spotRequestView.Describe(
		ctx,
		resource.Query{Operation: "DescribeSpotInstanceRequests", DryRun: in.DryRun, IDs: in.SpotInstanceRequestIds,
			Filters: in.Filters,
			Max:     in.MaxResults, Token: in.NextToken},
	)
	if found == nil {
		found = []types.SpotInstanceRequest{}
	}
	return &ec2.DescribeSpotInstanceRequestsOutput{SpotInstanceRequests: found, NextToken: next}, err
}

// CancelSpotInstanceRequests cancels spot requests. Their instances run on.
func (s *Service) CancelSpotInstanceRequests(ctx context.Context, in *ec2.CancelSpotInstanceRequestsInput) (
	*ec2.CancelSpotInstanceRequestsOutput, error) {
	var cancelled []types.CancelledSpotInstanceRequest
	err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		cancelled = []types.CancelledSpotInstanceRequest{}
		if len(in.SpotInstanceRequestIds) == 0 {
			return resource.MissingParameter("SpotInstanceRequestId")
		}
		rows, err := s.SpotRequests.ListByID(c.Scope, in.SpotInstanceRequestIds)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := s.SpotRequests.UpdateRecord(c, r.ID, func(r *record.SpotRequest) error {
				if r.Cancelled.IsZero() {
					r.Cancelled = s.Now().UTC()
				}
				return nil
			}); err != nil {
				return err
			}
			cancelled = append(cancelled, types.CancelledSpotInstanceRequest{SpotInstanceRequestId: aws.String(r.ID),
				State: types.CancelSpotInstanceRequestStateCancelled})
		}
		return nil
	})
	return &ec2.CancelSpotInstanceRequestsOutput{CancelledSpotInstanceRequests: cancelled}, err
}

// DescribeSpotPriceHistory lists the spot prices, of which there was never but one for a type.
func (s *Service) DescribeSpotPriceHistory(ctx context.Context, in *ec2.DescribeSpotPriceHistoryInput) (
	*ec2.DescribeSpotPriceHistoryOutput, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	wanted := cmp.Or(aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId))
	if _, ok := sc.FindZone(wanted); wanted != "" && !ok {
		return nil, resource.Invalid("Invalid availability zone: [%s]", wanted)
	}
	// The price is shown as of the start of the day.
	at := s.Now().UTC().Truncate(24 * time.Hour)
	if in.EndTime != nil && in.EndTime.Before(at) {
		at = in.EndTime.UTC().Truncate(24 * time.Hour)
	}
	var items []resource.Item[types.SpotPrice]
	for _, t := range instancetype.All() {
		if len(in.InstanceTypes) > 0 && !slices.Contains(in.InstanceTypes, types.InstanceType(t.Name)) {
			continue
		}
		for _, z := range sc.Zones() {
			if wanted != "" && wanted != z.Name && wanted != z.ID {
				continue
			}
			for _, product := range []types.RIProductDescription{types.RIProductDescriptionLinuxUnix,
				types.RIProductDescriptionLinuxUnixAmazonVpc} {
				if len(in.ProductDescriptions) > 0 && !slices.Contains(in.ProductDescriptions, string(product)) {
					continue
				}
				if len(in.ProductDescriptions) == 0 && product != types.RIProductDescriptionLinuxUnix {
					continue
				}
				items = append(items, resource.Item[types.SpotPrice]{ID: t.Name + " " + z.Name + " " + string(product),
					View: types.SpotPrice{
						AvailabilityZone: aws.String(z.Name), AvailabilityZoneId: aws.String(z.ID),
						InstanceType:       types.InstanceType(t.Name),
						ProductDescription: types.RIProductDescriptionLinuxUnix,
						SpotPrice:          aws.String(spotPrice(t.SpotUSD())), Timestamp: aws.Time(at),
					}})
			}
		}
	}
	slices.SortFunc(items, func(a, b resource.Item[types.SpotPrice]) int { return cmp.Compare(a.ID, b.ID) })
	found, next, err := resource.DescribeItems(
		ctx,
		resource.Query{Operation: "DescribeSpotPriceHistory", DryRun: in.DryRun, Filters: in.Filters, Max: in.MaxResults,
			Token: in.NextToken},
		items,
		resource.Filters[types.SpotPrice]{
			"availability-zone":    resource.StringFilter(func(x types.SpotPrice) *string { return x.AvailabilityZone }),
			"availability-zone-id": resource.StringFilter(func(x types.SpotPrice) *string { return x.AvailabilityZoneId }),
			"instance-type":        resource.EnumFilter(func(x types.SpotPrice) types.InstanceType { return x.InstanceType }),
			"product-description": resource.EnumFilter(
				func(x types.SpotPrice) types.RIProductDescription { return x.ProductDescription }),
			"spot-price": resource.StringFilter(func(x types.SpotPrice) *string { return x.SpotPrice }),
			"timestamp":  func(x types.SpotPrice) []string { return []string{x.Timestamp.Format(time.RFC3339)} },
		},
		nil,
	)
	if found == nil {
		found = []types.SpotPrice{}
	}
	return &ec2.DescribeSpotPriceHistoryOutput{SpotPriceHistory: found, NextToken: next}, err
}
