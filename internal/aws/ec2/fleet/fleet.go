package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/instance"
	"github.com/coracle-eks/coracle/internal/aws/ec2/launchtemplate"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) newFleetView() resource.View[record.Fleet, types.FleetData] {
	type v = types.FleetData
	return resource.View[record.Fleet, v]{
		Kind:   s.Fleets,
		Show:   s.viewFleet,
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"activity-status": resource.EnumFilter(
				func(x v) types.FleetActivityStatus { return x.ActivityStatus }),
			"excess-capacity-termination-policy": resource.EnumFilter(
				func(x v) types.FleetExcessCapacityTerminationPolicy { return x.ExcessCapacityTerminationPolicy }),
			"fleet-state":                 resource.EnumFilter(func(x v) types.FleetStateCode { return x.FleetState }),
			"replace-unhealthy-instances": resource.BoolFilter(func(x v) *bool { return x.ReplaceUnhealthyInstances }),
			"type":                        resource.EnumFilter(func(x v) types.FleetType { return x.Type }),
		},
	}
}

func newFleetID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	h := hex.EncodeToString(b[:])
	return "fleet-" + strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func (s *Service) viewFleet(sc resource.Scope, r record.Fleet) types.FleetData {
	v := types.FleetData{
		ActivityStatus: types.FleetActivityStatusFulfilled, ClientToken: aws.String(r.ClientToken),
		Context: resource.OrNil(r.Context), CreateTime: aws.Time(r.CreatedAt),
		ExcessCapacityTerminationPolicy: r.Excess, FleetId: aws.String(r.ID), FleetState: types.FleetStateCodeActive,
		LaunchTemplateConfigs: r.Configs,
		OnDemandOptions:       r.OnDemand, ReplaceUnhealthyInstances: aws.Bool(r.ReplaceUnhealthy), SpotOptions: r.Spot,
		Tags: s.ListTags(sc, r.ID), TargetCapacitySpecification: &r.Target,
		TerminateInstancesWithExpiration: aws.Bool(r.TerminateWhenEnded), Type: r.Type,
	}
	var all, onDemand float64
	for _, l := range r.Launched {
		for _, id := range l.InstanceIDs {
			row, err := s.Instances.Table.Get(sc, sc.Key(id))
			if err != nil || row.Value.Wanted == types.InstanceStateNameTerminated {
				continue
			}
			all += l.Weight
			if l.Lifecycle == types.InstanceLifecycleOnDemand {
				onDemand += l.Weight
			}
		}
	}
	v.FulfilledCapacity, v.FulfilledOnDemandCapacity = aws.Float64(all), aws.Float64(onDemand)
	switch {
	case !r.Done:
		v.ActivityStatus = types.FleetActivityStatusPendingFulfillment
	case len(r.Errors) > 0 && all < float64(aws.ToInt32(r.Target.TotalTargetCapacity)):
		v.ActivityStatus = types.FleetActivityStatusError
	}
	switch {
	case r.Deleted && !r.Terminating && all > 0:
		v.FleetState = types.FleetStateCodeDeletedRunning
	case r.Deleted && r.Terminating:
		v.FleetState = types.FleetStateCodeDeletedTerminatingInstances
	case r.Deleted:
		v.FleetState = types.FleetStateCodeDeleted
	}
	if r.Type == types.FleetTypeInstant {
		v.Errors, v.Instances = r.Errors, []types.DescribeFleetsInstances{}
		for _, l := range r.Launched {
			v.Instances = append(v.Instances, types.DescribeFleetsInstances{InstanceIds: l.InstanceIDs,
				InstanceType: l.InstanceType, Lifecycle: l.Lifecycle, LaunchTemplateAndOverrides: &l.Source})
		}
	}
	return v
}

// fleetHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) fleetHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateFleet, resource.Creating[ec2.CreateFleetInput](s.Records, types.ResourceTypeFleet)),
		wire.Handle(s.DescribeFleets, resource.OnRegion),
		wire.Handle(s.DescribeFleetInstances, resource.OnRegion),
		wire.Handle(s.DeleteFleets, resource.Touching[ec2.DeleteFleetsInput](s.Records)),
	}
}

// CreateFleet launches instances from launch templates and overrides of them until a capacity is reached. What one
// override cannot launch the next may; the errors of each are in the answer. A fleet of the type request does the same,
// once; one that is maintained is an Auto Scaling group here.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFleet.html
func (s *Service) CreateFleet(ctx context.Context, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	fleet, err := s.readFleet(sc, in)
	if err != nil {
		return nil, err
	}
	pools, err := s.resolvePools(sc, in)
	if err != nil {
		return nil, err
	}
	// The row comes first. The request sent again goes on where it was interrupted, because what the pools launch has
	// client tokens that follow from the fleet's ID.
	if err := s.CommitPlan(sc, in.DryRun, func(c *resource.Change) error {
		fleet.EC2Resource = c.NewResource(newFleetID(), in.ClientToken)
		prior, err := c.CheckClientToken(in.ClientToken, s.Fleets.Naming, fleet.ID, in)
		if err != nil {
			return err
		}
		if prior != "" {
			row, err := s.Fleets.Get(c.Scope, prior)
			fleet = row.Value
			return err
		}
		s.Fleets.CreateRecord(c, fleet)
		return c.AddTags(types.ResourceTypeFleet, fleet.ID, fleetTags(in))
	}); err != nil {
		return nil, err
	}
	if !fleet.Done {
		f := &filling{s: s, sc: sc, request: in, fleet: &fleet}
		if err := f.launchCapacity(pools); err != nil {
			return nil, err
		}
	}
	out := &ec2.CreateFleetOutput{FleetId: aws.String(fleet.ID)}
	if fleet.Type != types.FleetTypeInstant {
		return out, nil
	}
	out.Instances, out.Errors = []types.CreateFleetInstance{}, []types.CreateFleetError{}
	for _, l := range fleet.Launched {
		z, _ := sc.FindZone(l.Zone)
		out.Instances = append(out.Instances, types.CreateFleetInstance{
			AvailabilityZone: aws.String(l.Zone), AvailabilityZoneId: aws.String(z.ID), InstanceIds: l.InstanceIDs,
			InstanceType: l.InstanceType, Lifecycle: l.Lifecycle,
			LaunchTemplateAndOverrides: &l.Source, SubnetId: aws.String(l.SubnetID),
		})
	}
	for _, e := range fleet.Errors {
		out.Errors = append(out.Errors, types.CreateFleetError{ErrorCode: e.ErrorCode, ErrorMessage: e.ErrorMessage,
			LaunchTemplateAndOverrides: e.LaunchTemplateAndOverrides, Lifecycle: e.Lifecycle})
	}
	return out, nil
}

// fleetTags returns the tags of the fleet itself.
func fleetTags(in *ec2.CreateFleetInput) []types.TagSpecification {
	return slices.DeleteFunc(slices.Clone(in.TagSpecifications),
		func(t types.TagSpecification) bool { return t.ResourceType != types.ResourceTypeFleet })
}

// readFleet checks what is asked of a fleet as a whole.
func (s *Service) readFleet(sc resource.Scope, q *ec2.CreateFleetInput) (record.Fleet, error) {
	r := record.Fleet{
		Type: q.Type, Context: aws.ToString(q.Context), Excess: q.ExcessCapacityTerminationPolicy,
		ReplaceUnhealthy:   aws.ToBool(q.ReplaceUnhealthyInstances),
		TerminateWhenEnded: aws.ToBool(q.TerminateInstancesWithExpiration),
	}
	if err := errors.Join(resource.CheckEnum(q.Type, "Type"), resource.CheckEnum(q.ExcessCapacityTerminationPolicy,
		"ExcessCapacityTerminationPolicy")); err != nil {
		return r, err
	}
	if r.Excess == "" {
		r.Excess = types.FleetExcessCapacityTerminationPolicyTermination
	}
	t := q.TargetCapacitySpecification
	switch {
	case q.Type == "" || q.Type == types.FleetTypeMaintain:
		return r, resource.Unsupported(
			"Type=maintain, which is the default: use instant or request, or an Auto Scaling group,",
		)
	case len(q.LaunchTemplateConfigs) == 0:
		return r, resource.MissingParameter("LaunchTemplateConfigs")
	case len(q.LaunchTemplateConfigs) > 50:
		return r, resource.Invalid("A fleet has at most 50 launch template configurations; the request has %d.",
			len(q.LaunchTemplateConfigs))
	case t == nil || t.TotalTargetCapacity == nil:
		return r, resource.MissingParameter("TargetCapacitySpecification.TotalTargetCapacity")
	case *t.TotalTargetCapacity < 0 || *t.TotalTargetCapacity == 0 && q.Type == types.FleetTypeInstant:
		return r, wire.Errorf("InvalidTargetCapacitySpecification", "The total target capacity %d is not positive.",
			*t.TotalTargetCapacity)
	case q.ReservedCapacityOptions != nil ||
		t.DefaultTargetCapacityType == types.DefaultTargetCapacityTypeCapacityBlock ||
		t.DefaultTargetCapacityType == types.DefaultTargetCapacityTypeReservedCapacity:
		return r, resource.Unsupported("ReservedCapacityOptions")
	case q.ValidFrom != nil && q.ValidFrom.After(s.Now()):
		return r, resource.Unsupported("ValidFrom in the future")
	}
	if err := errors.Join(resource.CheckEnum(t.DefaultTargetCapacityType, "DefaultTargetCapacityType"),
		resource.CheckEnum(t.TargetCapacityUnitType, "TargetCapacityUnitType")); err != nil {
		return r, err
	}
	if q.SpotOptions != nil {
		if err := resource.CheckEnum(q.SpotOptions.AllocationStrategy, "SpotOptions.AllocationStrategy"); err != nil {
			return r, err
		}
	}
	if q.OnDemandOptions != nil {
		if err := resource.CheckEnum(q.OnDemandOptions.AllocationStrategy, "OnDemandOptions.AllocationStrategy"); err != nil {
			return r, err
		}
	}
	for _, tags := range q.TagSpecifications {
		fits := tags.ResourceType == types.ResourceTypeFleet || q.Type == types.FleetTypeInstant &&
			slices.Contains(launchtemplate.TaggableTypes, tags.ResourceType)
		if !fits {
			return r, resource.Invalid("'%s' is not a valid taggable resource type for this operation.", tags.ResourceType)
		}
		if err := sc.CheckTags(tags.Tags); err != nil {
			return r, err
		}
	}
	onDemand, spot := aws.ToInt32(t.OnDemandTargetCapacity), aws.ToInt32(t.SpotTargetCapacity)
	total := *t.TotalTargetCapacity
	if onDemand+spot > total || onDemand < 0 || spot < 0 {
		return r, wire.Errorf("InvalidTargetCapacitySpecification",
			"The on-demand target capacity %d and the Spot target capacity %d are together more than the total "+
				"target capacity %d.", onDemand, spot, total)
	}
	r.Target = types.TargetCapacitySpecification{DefaultTargetCapacityType: t.DefaultTargetCapacityType,
		TargetCapacityUnitType: t.TargetCapacityUnitType, TotalTargetCapacity: aws.Int32(total)}
	if r.Target.DefaultTargetCapacityType == "" {
		r.Target.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeOnDemand
	}
	if r.Target.DefaultTargetCapacityType == types.DefaultTargetCapacityTypeSpot {
		spot = total - onDemand
	} else {
		onDemand = total - spot
	}
	r.Target.OnDemandTargetCapacity, r.Target.SpotTargetCapacity = aws.Int32(onDemand), aws.Int32(spot)
	if err := errors.Join(convertViaJSON(q.SpotOptions, &r.Spot), convertViaJSON(q.OnDemandOptions, &r.OnDemand),
		convertViaJSON(q.LaunchTemplateConfigs, &r.Configs)); err != nil {
		return r, fmt.Errorf("read the options of a fleet: %w", err)
	}
	return r, nil
}

// filling is the launching of a fleet's instances.
type filling struct {
	s       *Service
	sc      resource.Scope
	request *ec2.CreateFleetInput
	fleet   *record.Fleet
}

// launchCapacity launches what the fleet is to have and writes down what became of it.
func (f *filling) launchCapacity(pools []pool) error {
	onDemand, spot := f.request.OnDemandOptions, f.request.SpotOptions
	if onDemand == nil {
		onDemand = &types.OnDemandOptionsRequest{}
	}
	if spot == nil {
		spot = &types.SpotOptionsRequest{}
	}
	for _, half := range []struct {
		lifecycle types.InstanceLifecycle
		target    *int32
		strategy  string
		least     *int32
		one       oneKind
	}{
		{types.InstanceLifecycleOnDemand, f.fleet.Target.OnDemandTargetCapacity, string(onDemand.AllocationStrategy),
			onDemand.MinTargetCapacity,
			oneKind{aws.ToBool(onDemand.SingleInstanceType), aws.ToBool(onDemand.SingleAvailabilityZone)}},
		{types.InstanceLifecycleSpot, f.fleet.Target.SpotTargetCapacity, string(spot.AllocationStrategy),
			spot.MinTargetCapacity,
			oneKind{aws.ToBool(spot.SingleInstanceType), aws.ToBool(spot.SingleAvailabilityZone)}},
	} {
		want := float64(aws.ToInt32(half.target))
		if want == 0 {
			continue
		}
		before := len(f.fleet.Launched)
		got, err := f.launchFromPools(ordered(pools, half.lifecycle, half.strategy), half.lifecycle, want,
			half.strategy == string(types.SpotAllocationStrategyDiversified), half.one)
		if err != nil {
			return err
		}
		if half.least != nil && got < float64(*half.least) {
			if err := f.takeDown(before); err != nil {
				return err
			}
		}
	}
	f.fleet.Done = true
	return f.s.CommitPlan(f.sc, nil, func(c *resource.Change) error {
		return f.s.Fleets.UpdateRecord(c, f.fleet.ID, func(r *record.Fleet) error {
			r.Done, r.Launched, r.Errors = true, f.fleet.Launched, f.fleet.Errors
			return nil
		})
	})
}

// oneKind requires that all instances are of one type, or in one zone.
type oneKind struct{ kind, zone bool }

// launchFromPools launches from the pools in their order until what is wanted is there; with spread, an instance from
// each in turn.
func (f *filling) launchFromPools(pools []pool, lifecycle types.InstanceLifecycle, want float64, spread bool,
	one oneKind) (got float64, err error) {
	var first *pool
	fits := func(p pool) bool {
		return first == nil || (!one.kind || p.kind.Name == first.kind.Name) && (!one.zone || p.zone == first.zone)
	}
	dry := map[int]bool{} // pools that have failed
	for round := 0; got < want && (round == 0 || spread && len(dry) < len(pools)); round++ {
		for i, p := range pools {
			if got >= want {
				break
			}
			if dry[i] || !fits(p) {
				dry[i] = true
				continue
			}
			n := 1
			if !spread {
				n = int(math.Ceil((want - got) / p.weight))
			}
			launched, err := f.launchFrom(p, lifecycle, n, round)
			if err != nil {
				if err := f.recordFailure(p, lifecycle, err); err != nil {
					return got, err
				}
			}
			if len(launched) < n {
				dry[i] = true
			}
			if len(launched) > 0 {
				got += p.weight * float64(len(launched))
				first = &pools[i]
			}
		}
	}
	return got, nil
}

// launchFrom launches up to n instances from a pool.
func (f *filling) launchFrom(p pool, lifecycle types.InstanceLifecycle, n, round int) ([]record.Instance, error) {
	token := fmt.Sprintf("%s-%s-%d-%d", f.fleet.ID, lifecycle, p.index, round)
	var launched []record.Instance
	request, err := p.runInstancesInput(f.request, lifecycle, int32(min(n, 1000)), token)
	if err == nil {
		var l *instance.Launch
		if l, err = f.s.instances.ReadLaunch(f.sc, request, true); err == nil {
			l.Fleet = f.fleet.ID
			launched, err = f.s.instances.LaunchInstances(f.sc, l)
		}
	}
	if len(launched) == 0 {
		return nil, err
	}
	ids := make([]string, len(launched))
	for i, r := range launched {
		ids[i] = r.ID
	}
	at := slices.IndexFunc(f.fleet.Launched, func(l record.FleetLaunch) bool {
		return l.Lifecycle == lifecycle &&
			p.isSourceOf(l)
	})
	if at < 0 {
		at = len(f.fleet.Launched)
		f.fleet.Launched = append(f.fleet.Launched, record.FleetLaunch{
			InstanceType: launched[0].InstanceType, SubnetID: launched[0].SubnetID, Zone: launched[0].AvailabilityZone,
			Lifecycle: lifecycle, Weight: p.weight, Source: p.source,
		})
	}
	f.fleet.Launched[at].InstanceIDs = append(f.fleet.Launched[at].InstanceIDs, ids...)
	return launched, err
}

// recordFailure writes down why a pool could not launch. What is coracle's own failure ends the request.
func (f *filling) recordFailure(p pool, lifecycle types.InstanceLifecycle, err error) error {
	e := types.DescribeFleetError{LaunchTemplateAndOverrides: &p.source, Lifecycle: lifecycle}
	var refused *wire.Error
	var denied *wire.Denied
	switch {
	case errors.As(err, &refused):
		e.ErrorCode, e.ErrorMessage = aws.String(refused.Code), aws.String(refused.Message)
	case errors.As(err, &denied):
		e.ErrorCode = aws.String("UnauthorizedOperation")
		e.ErrorMessage = aws.String(fmt.Sprintf("You are not authorized to perform this operation. User: %s is %v",
			f.sc.Caller.ARN, denied))
	default:
		return err
	}
	if text := *e.ErrorMessage; len(text) > maxMessage {
		e.ErrorMessage = aws.String(strings.ToValidUTF8(text[:maxMessage], "") + "...")
	}
	f.fleet.Errors = append(f.fleet.Errors, e)
	return nil
}

// maxMessage is the number of bytes that are kept of the reason why a pool could not launch. There may be thousands of
// them, and each may contain a name that its user chose.
const maxMessage = 512

// takeDown terminates what was launched from some launch on, because it is less than the least that was wanted.
func (f *filling) takeDown(from int) error {
	for _, l := range f.fleet.Launched[from:] {
		rows, err := f.s.Instances.ListByID(f.sc, l.InstanceIDs)
		if err != nil {
			return err
		}
		if err := f.s.instances.TerminateLaunched(f.sc, rows); err != nil {
			return err
		}
	}
	f.fleet.Launched = f.fleet.Launched[:from]
	return nil
}

// DescribeFleets lists fleets; instant ones only when they are named.
func (s *Service) DescribeFleets(ctx context.Context, in *ec2.DescribeFleetsInput) (*ec2.DescribeFleetsOutput, error) {
	found, next, err := s.fleetView.Describe(
		ctx,
		resource.Query{Operation: "DescribeFleets", DryRun: in.DryRun, IDs: in.FleetIds, Filters: in.Filters,
			Max:   in.MaxResults,
			Token: in.NextToken},
	)
	if len(in.FleetIds) == 0 {
		found = slices.DeleteFunc(found, func(x types.FleetData) bool { return x.Type == types.FleetTypeInstant })
	}
	if found == nil {
		found = []types.FleetData{}
	}
	return &ec2.DescribeFleetsOutput{Fleets: found, NextToken: next}, err
}

// DescribeFleetInstances lists the instances of a fleet that run.
func (s *Service) DescribeFleetInstances(ctx context.Context, in *ec2.DescribeFleetInstancesInput) (
	*ec2.DescribeFleetInstancesOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeFleetInstances", DryRun: in.DryRun, Filters: in.Filters,
		Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	r, err := s.Fleets.GetRecord(sc, in.FleetId)
	if err != nil {
		return nil, err
	}
	var items []resource.Item[types.ActiveInstance]
	for _, l := range r.Launched {
		for _, id := range l.InstanceIDs {
			row, err := s.Instances.Table.Get(sc, sc.Key(id))
			if err != nil || row.Value.Wanted == types.InstanceStateNameTerminated {
				continue
			}
			items = append(items, resource.Item[types.ActiveInstance]{ID: id, View: types.ActiveInstance{
				InstanceHealth: types.InstanceHealthStatusHealthyStatus, InstanceId: aws.String(id),
				InstanceType:          aws.String(string(row.Value.InstanceType)),
				SpotInstanceRequestId: resource.OrNil(row.Value.SpotInstanceRequestID),
			}})
		}
	}
	slices.SortFunc(items, func(a, b resource.Item[types.ActiveInstance]) int { return strings.Compare(a.ID, b.ID) })
	found, next, err := resource.DescribeItems(
		ctx,
		query,
		items,
		resource.Filters[types.ActiveInstance]{
			"instance-type": resource.StringFilter(func(x types.ActiveInstance) *string { return x.InstanceType }),
		},
		nil,
	)
	if found == nil {
		found = []types.ActiveInstance{}
	}
	return &ec2.DescribeFleetInstancesOutput{ActiveInstances: found, FleetId: in.FleetId, NextToken: next}, err
}

// DeleteFleets deletes fleets, with their instances or without.
func (s *Service) DeleteFleets(ctx context.Context, in *ec2.DeleteFleetsInput) (*ec2.DeleteFleetsOutput, error) {
	if len(in.FleetIds) == 0 {
		return nil, resource.MissingParameter("FleetId")
	}
	if in.TerminateInstances == nil {
		return nil, resource.MissingParameter("TerminateInstances")
	}
	out := &ec2.DeleteFleetsOutput{SuccessfulFleetDeletions: []types.DeleteFleetSuccessItem{},
		UnsuccessfulFleetDeletions: []types.DeleteFleetErrorItem{}}
	for _, id := range in.FleetIds {
		var success types.DeleteFleetSuccessItem
		err := s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
			r, err := s.Fleets.GetRecord(c.Scope, &id)
			if err != nil {
				return err
			}
			if r.Type == types.FleetTypeInstant && !*in.TerminateInstances {
				return wire.Errorf(string(types.DeleteFleetErrorCodeFleetNotInDeletableState),
					"An instant fleet is deleted with its instances: set TerminateInstances.")
			}
			success = types.DeleteFleetSuccessItem{FleetId: aws.String(id), PreviousFleetState: s.viewFleet(c.Scope,
				r).FleetState}
			return s.Fleets.UpdateRecord(c, id, func(r *record.Fleet) error {
				r.Deleted, r.Terminating = true, r.Terminating || *in.TerminateInstances
				success.CurrentFleetState = s.viewFleet(c.Scope, *r).FleetState
				return nil
			})
		})
		if err == nil && *in.TerminateInstances {
			err = s.terminateFleet(ctx, id)
		}
		var refused *wire.Error
		switch {
		case err == nil:
			out.SuccessfulFleetDeletions = append(out.SuccessfulFleetDeletions, success)
		case errors.As(err, &refused) && !errors.Is(err, resource.ErrDryRun):
			code := map[string]types.DeleteFleetErrorCode{
				"InvalidFleetId.NotFound":                                  types.DeleteFleetErrorCodeFleetIdDoesNotExist,
				"InvalidFleetId.Malformed":                                 types.DeleteFleetErrorCodeFleetIdMalformed,
				string(types.DeleteFleetErrorCodeFleetNotInDeletableState): types.DeleteFleetErrorCodeFleetNotInDeletableState,
			}[refused.Code]
			if code == "" {
				code = types.DeleteFleetErrorCodeUnexpectedError
			}
			out.UnsuccessfulFleetDeletions = append(out.UnsuccessfulFleetDeletions,
				types.DeleteFleetErrorItem{FleetId: aws.String(id), Error: &types.DeleteFleetError{Code: code,
					Message: aws.String(refused.Message)}})
		default:
			return nil, err
		}
	}
	return out, nil
}

// terminateFleet terminates the instances of a fleet that are there. It may be asked again.
func (s *Service) terminateFleet(ctx context.Context, id string) error {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return err
	}
	fleet, err := s.Fleets.GetRecord(sc, &id)
	if err != nil {
		return err
	}
	var ids []string
	for _, l := range fleet.Launched {
		ids = append(ids, l.InstanceIDs...)
	}
	for some := range slices.Chunk(ids, instance.PerChange) {
		if err := s.CommitPlan(sc, nil, func(c *resource.Change) error {
			for _, id := range some {
				if _, err := s.Instances.Table.Get(c, c.Key(id)); err != nil {
					continue // gone
				}
				if err := s.Instances.UpdateRecord(c, id, func(r *record.Instance) error {
					if r.Wanted != types.InstanceStateNameTerminated {
						instance.Terminate(c, r, instance.UserInitiatedShutdown, instance.UserInitiatedReason, instance.UserInitiated)
					}
					return nil
				}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
