package autoscalinggroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// groupTag is the tag by which an instance tells its group.
const groupTag = "aws:autoscaling:groupName"

const (
	// launchesAtOnce is the number of instances that one request to EC2 asks for, and launchesInARow the number that
	// are requested before the group is reconciled again.
	launchesAtOnce = 25
	launchesInARow = 100

	firstRetry  = 5 * time.Second // after a launch that failed; each further one waits twice as long
	latestRetry = 5 * time.Minute
)

// finishLaunches asks EC2 again about launches that were decided upon before the controller was killed.
func (c *Controller) finishLaunches(ctx context.Context, v *view) error {
	for _, row := range slices.Clone(v.launches) {
		if err := c.runLaunch(ctx, v, row.Key, row.Value); err != nil {
			return err
		}
	}
	return nil
}

// launchMissing launches instances until there are as many as are desired.
func (c *Controller) launchMissing(ctx context.Context, v *view) error {
	need := v.targetCapacity() - v.capacity()
	if need <= 0 {
		if v.capacity() == v.group.Desired && !v.group.Deleting && v.group.Change.ID != v.status.Answered {
			v.markAnswered() // there is nothing to do about it
			return c.putStatus(ctx, v)
		}
		return nil
	}
	if v.suspended("Launch") || v.group.Deleting || c.resting(v) {
		return nil
	}
	var causes []string
	cause := func() string {
		now, have := c.now(), v.capacity()
		switch {
		case v.replacing > len(causes):
			return replacing(now)
		case have >= v.group.Desired && v.replacements() > 0:
			return rebalanceCause(now)
		}
		return v.because() + growing(now, have, v.targetCapacity())
	}
	asked, err := c.launchInstances(ctx, v, need, false, func() string {
		why := cause()
		causes = append(causes, why)
		return why
	})
	if err != nil || !asked {
		return err
	}
	v.markAnswered()
	if err := c.putStatus(ctx, v); err != nil {
		return err
	}
	// What could not be launched in one location is launched in another at once, and so are the launches beyond this
	// round.
	if v.capacity() < v.targetCapacity() && !c.resting(v) {
		v.again = true
	}
	return nil
}

// launchInstances launches instances of some capacity, into service or into the warm pool. false: there is nothing that
// could be launched now.
func (c *Controller) launchInstances(ctx context.Context, v *view, need int32, warm bool, cause func() string) (
	bool, error) {
	if err := v.checkTraffic(); err != nil {
		return false, c.launchRefused(ctx, v, pool{}, cause(), err)
	}
	p, err := c.newPlan(ctx, v, warm)
	if err != nil {
		return false, c.launchRefused(ctx, v, pool{}, cause(), err)
	}
	type batch struct {
		pool
		causes []string
	}
	var batches []*batch
	for n := 0; need > 0 && n < launchesInARow; n++ {
		chosen, ok := p.choosePool("")
		if !ok {
			break
		}
		need -= chosen.weight
		why := cause()
		i := slices.IndexFunc(batches, func(b *batch) bool {
			return b.pool.matches(chosen) &&
				len(b.causes) < launchesAtOnce
		})
		if i < 0 {
			i = len(batches)
			batches = append(batches, &batch{pool: chosen})
		}
		batches[i].causes = append(batches[i].causes, why)
	}
	if len(batches) == 0 {
		c.untilRetry(v)
		return false, nil
	}
	for _, b := range batches {
		if err := c.recordLaunch(ctx, v, b.pool, b.causes, warm); err != nil {
			return false, err
		}
		if c.resting(v) {
			break
		}
	}
	return true, nil
}

func (p pool) matches(other pool) bool {
	return p.key() == other.key() && p.image == other.image &&
		aws.ToString(p.template.LaunchTemplateId) == aws.ToString(other.template.LaunchTemplateId)
}

// recordLaunch writes a launch down and carries it out.
func (c *Controller) recordLaunch(ctx context.Context, v *view, p pool, causes []string, warm bool) error {
	token := uuid.NewString()
	launch := record.AutoScalingLaunch{
		GroupID: v.group.ID, Token: token, Input: v.request(p, token, len(causes)), Zone: p.zone,
		LaunchTemplate: p.template,
		Weight:         p.weight, Weighted: p.weighted, Spot: p.spot, Causes: causes, Warm: warm, StartedAt: c.now(),
	}
	key := store.Key(v.group.Account, v.group.Region, v.group.Name, token)
	row, err := c.launches.Create(ctx, key, launch)
	if err != nil {
		return err
	}
	v.launches = append(v.launches, row)
	crashDecided.Here()
	return c.runLaunch(ctx, v, key, launch)
}

// request returns what EC2 is asked for.
func (v *view) request(p pool, token string, n int) ec2.RunInstancesInput {
	in := ec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: new(int32(n)), ClientToken: &token,
		LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateId: p.template.LaunchTemplateId,
			Version: p.template.Version},
		InstanceType: ec2types.InstanceType(p.kind),
	}
	if p.image != "" {
		in.ImageId = &p.image
	}
	if p.subnet != "" {
		in.SubnetId = &p.subnet
	} else {
		in.Placement = &ec2types.Placement{AvailabilityZone: &p.zone}
	}
	if v.group.PlacementGroup != "" {
		if in.Placement == nil {
			in.Placement = &ec2types.Placement{}
		}
		in.Placement.GroupName = &v.group.PlacementGroup
	}
	if p.spot {
		in.InstanceMarketOptions = &ec2types.InstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeSpot,
			SpotOptions: &ec2types.SpotMarketOptions{SpotInstanceType: ec2types.SpotInstanceTypeOneTime}}
		if _, mixed := v.configuration(); mixed != nil && mixed.InstancesDistribution != nil &&
			aws.ToString(mixed.InstancesDistribution.SpotMaxPrice) != "" {
			in.InstanceMarketOptions.SpotOptions.MaxPrice = mixed.InstancesDistribution.SpotMaxPrice
		}
	}
	tags := []ec2types.Tag{{Key: aws.String(groupTag), Value: &v.group.Name}}
	for _, t := range v.group.Tags {
		if t.PropagateAtLaunch {
			tags = append(tags, ec2types.Tag{Key: &t.Key, Value: &t.Value})
		}
	}
	in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: tags}}
	return in
}

// runLaunch asks EC2 for the instances of a launch that is written down, and records what came of it.
func (c *Controller) runLaunch(ctx context.Context, v *view, key string, l record.AutoScalingLaunch) error {
	in := l.Input
	out, err := v.client.RunInstances(store.Limited(ctx), &in) // its user chose how many there are
	if err == nil && len(out.Instances) == 0 {
		err = errors.New("EC2 launched nothing")
	}
	done := func() {
		v.launches = slices.DeleteFunc(v.launches,
			func(r store.Row[record.AutoScalingLaunch]) bool { return r.Key == key })
	}
	if err != nil {
		switch apierror.Code(err) {
		case "", "InternalError", "InternalFailure", "ServiceUnavailable", "RequestLimitExceeded", "Throttling":
			return fmt.Errorf("ask EC2: %w", err) // it may have launched something, or not: ask again
		}
		p := pool{option: option{template: l.LaunchTemplate, weight: l.Weight, typeOf: string(in.InstanceType)},
			location: location{l.Zone, aws.ToString(in.SubnetId)}, spot: l.Spot}
		if p.typeOf == "" {
			p.typeOf = c.templateType(ctx, v, l.LaunchTemplate)
		}
		if err := c.launchRefused(ctx, v, p, l.Causes[0], err, c.launches.RemoveOp(key)); err != nil {
			return err
		}
		done()
		return nil
	}
	crashLaunched.Here()
	ops := []store.Op{c.launches.RemoveOp(key)}
	var fresh []*member
	now := c.now()
	for i, instance := range out.Instances {
		id := aws.ToString(instance.InstanceId)
		description, state := "Launching a new EC2 instance: ", types.LifecycleStatePending
		if l.Warm {
			description, state = "Launching a new EC2 instance into warm pool: ", types.LifecycleStateWarmedPending
		}
		activity := v.newActivity(l.StartedAt, "", id, description+id, l.Causes[min(i, len(l.Causes)-1)], l.Zone,
			aws.ToString(instance.SubnetId))
		activity.StatusCode, activity.Progress = types.ScalingActivityStatusCodePreInService, 30
		m := &member{key: record.EC2Key(v.group.Account, v.group.Region, id), state: ec2types.InstanceStateNamePending}
		m.row = record.AutoScalingInstance{
			ID: id, GroupName: v.group.Name, GroupID: v.group.ID, InstanceType: string(instance.InstanceType),
			ImageID: aws.ToString(instance.ImageId),
			Zone:    l.Zone, State: state, LaunchTemplate: l.LaunchTemplate, Weight: l.Weight, Weighted: l.Weighted,
			Spot:      l.Spot,
			Protected: v.group.ProtectNew, LaunchedAt: now, ActivityID: activity.ID,
		}
		m.instance.SubnetID = aws.ToString(instance.SubnetId)
		ops = append(ops, c.members.PutOp(m.key, m.row), c.activities.PutOp(v.activityKey(activity.ID), activity))
		fresh = append(fresh, m)
	}
	if err := c.store.Txn(ctx, ops...); err != nil {
		return err
	}
	v.members = append(v.members, fresh...)
	done()
	return nil
}

func (c *Controller) templateType(ctx context.Context, v *view, spec *types.LaunchTemplateSpecification) string {
	o, err := c.resolveVersion(ctx, v, spec)
	if err != nil {
		return ""
	}
	return o.typeOf
}

// launchRefused records a launch that EC2 refused, as an activity that failed.
func (c *Controller) launchRefused(ctx context.Context, v *view, p pool, cause string, err error,
	also ...store.Op) error {
	if apierror.Code(err) == "" && ctx.Err() != nil {
		return err
	}
	what := strings.TrimSuffix(strings.TrimSpace(apierror.Message(err)), ".") + ". "
	switch apierror.Code(err) {
	case "InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId.VersionNotFound",
		"InvalidLaunchTemplateName.NotFoundException":
		what = "You must use a valid fully-formed launch template. " + what
	case "InsufficientFreeAddressesInSubnet":
		what = fmt.Sprintf(
			"There are not enough free addresses in subnet '%s' to satisfy the requested number of instances. ",
			p.subnet)
	case "InsufficientInstanceCapacity", "UnauthorizedOperation":
		what = apierror.Code(err) + " - " + what
	}
	if _, ok := errors.AsType[invalidTraffic](err); ok {
		what += "Validating load balancer configuration failed."
	} else {
		what += "Launching EC2 instance failed."
	}
	activity := v.newActivity(c.now(), "", "", "Launching a new EC2 instance.  Status Reason: "+what, cause, p.zone,
		p.subnet)
	activity.StatusCode, activity.StatusMessage = types.ScalingActivityStatusCodeFailed, what
	activity.EndTime, activity.Progress = c.now(), 100
	switch apierror.Code(err) {
	case "InsufficientFreeAddressesInSubnet", "InvalidSubnetID.NotFound", "InvalidSubnet":
		c.recordFailure(v, p.location.key())
	case "InsufficientInstanceCapacity", "Unsupported", "UnsupportedOperation", "SpotMaxPriceTooLow",
		"MaxSpotInstanceCountExceeded":
		c.recordFailure(v, p.key())
	default:
		c.recordFailure(v, "")
	}
	ops := append(slices.Clone(also), c.statuses.PutOp(v.key, v.status))
	// Groups that fail for ever are as many as their account likes: what is told of it keeps the quota.
	refused := c.store.Txn(store.Limited(ctx), append(slices.Clone(ops),
		c.activities.PutOp(v.activityKey(activity.ID), activity))...)
	var full *store.FullError
	if errors.As(refused, &full) {
		return c.store.Txn(ctx, ops...)
	}
	return refused
}

// maxFailedLocations is the maximum number of locations that are skipped after a failure. With more, the whole group
// waits, so that the locations that its configuration multiplies are not all tried, and recorded, one after the other.
const maxFailedLocations = 32

// recordFailure records a failed launch: in one location, which is skipped for some time, or in any.
func (c *Controller) recordFailure(v *view, where string) {
	wait := min(firstRetry<<min(v.status.Failures, 10), latestRetry)
	again := c.now().Add(wait)
	v.status.FailedAt = v.groupRow.Revision
	v.status.Failures++
	zones := maps.Clone(v.status.Zones)
	maps.DeleteFunc(zones, func(_ string, at time.Time) bool { return !c.now().Before(at) })
	if where == "" || len(zones) >= maxFailedLocations {
		v.status.RetryAt = again
	} else {
		if zones == nil {
			zones = make(map[string]time.Time)
		}
		zones[where] = again
		v.status.Zones = zones
	}
	v.wakeAt(again)
}

// launched records a successful launch.
func (c *Controller) launched(ctx context.Context, v *view) error {
	if v.status.Failures == 0 && v.status.RetryAt.IsZero() {
		return nil
	}
	v.status.Failures, v.status.RetryAt = 0, time.Time{}
	return c.putStatus(ctx, v)
}

// resting reports whether it is too early to launch again after a failure. Whoever changes the group has it tried again
// at once.
func (c *Controller) resting(v *view) bool {
	if v.status.FailedAt != v.groupRow.Revision {
		v.status.RetryAt, v.status.Zones, v.status.Failures = time.Time{}, nil, 0
		return false
	}
	if c.now().Before(v.status.RetryAt) {
		v.wakeAt(v.status.RetryAt)
		return true
	}
	return false
}

// untilRetry schedules a reconcile pass over the group for the time when a location is tried again.
func (c *Controller) untilRetry(v *view) {
	for _, at := range v.status.Zones {
		if c.now().Before(at) {
			v.wakeAt(at)
		}
	}
}

// resolveZone returns the zone of a subnet; a subnet that is gone was in the group's only zone, or the first.
func (c *Controller) resolveZone(ctx context.Context, v *view, subnet string) (string, error) {
	row, err := record.Subnets(c.store).Get(ctx, record.EC2Key(v.group.Account, v.group.Region, subnet))
	if errors.Is(err, store.ErrNotFound) {
		return cmp.Or(slices.Concat(v.group.Zones, []string{""})...), nil
	}
	return row.Value.AvailabilityZone, err
}
