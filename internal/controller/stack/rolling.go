package stack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/cloudformation/plan"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// autoScalingGroup is the type that UpdatePolicy is about.
const autoScalingGroup = "AWS::AutoScaling::AutoScalingGroup"

// launchProperties are the properties whose change is for new instances only: an UpdatePolicy replaces the others.
var launchProperties = []string{"LaunchConfigurationName", "LaunchTemplate", "MixedInstancesPolicy",
	"VPCZoneIdentifier", "AvailabilityZones"}

// rolls reports whether an update of a group concerns its instances.
func rolls(old, target record.StackPhysical) bool {
	before, err := revision.Resource(old)
	if err != nil || old.Type != autoScalingGroup {
		return false
	}
	after, err := revision.Resource(target)
	return err == nil && slices.ContainsFunc(launchProperties, func(name string) bool {
		return !plan.Equal(before.Properties[name], after.Properties[name])
	})
}

// rolling is the state of a rolling update, which the record of the resource keeps in Policy.
type rolling struct {
	*pass
	row    store.Row[record.StackResource]
	client *autoscaling.Client
	config map[string]any
	state  map[string]string
	group  astypes.AutoScalingGroup
}

// What a rolling update keeps.
const (
	rollOld     = "old"     // instances that are to be replaced, with commas
	rollBatch   = "batch"   // those that are being replaced
	rollPaused  = "paused"  // since when the update pauses after a batch
	rollDesired = "desired" // the desired capacity before it was raised
	rollSignals = "signals" // how many signals there were before the batch
)

// rollGroup does the next step of a rolling update of an Auto Scaling group.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-updatepolicy.html
func (p *pass) rollGroup(ctx context.Context, row store.Row[record.StackResource], policy map[string]any) outcome {
	config, _ := policy["AutoScalingRollingUpdate"].(map[string]any)
	r := &rolling{pass: p, row: row, client: autoscaling.NewFromConfig(p.config), config: config,
		state: maps.Clone(row.Value.Work.Policy)}
	if r.state == nil {
		r.state = map[string]string{}
	}
	out, err := r.client.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: []string{row.Value.Work.Target.PhysicalID}})
	if err == nil && len(out.AutoScalingGroups) != 1 {
		err = resource.Errorf(resource.NotFound, "Auto Scaling group %s does not exist", row.Value.Work.Target.PhysicalID)
	}
	if err != nil {
		return r.failOrRetry(ctx, err)
	}
	r.group = out.AutoScalingGroups[0]
	o, err := r.step(ctx)
	if err != nil {
		return r.failOrRetry(ctx, err)
	}
	return o
}

func (r *rolling) failOrRetry(ctx context.Context, err error) outcome {
	if r.mayRetry(r.row, err) {
		r.c.setWait(r.key, r.row.Value.LogicalID, 0, true)
		return outcome{after: max(r.c.dueIn(r.key, r.row.Value.LogicalID), time.Millisecond)}
	}
	return r.endFailed(ctx, r.row, resource.Reason(err, r.row.Value.Work.Token), resource.Result{})
}

func (r *rolling) step(ctx context.Context) (outcome, error) {
	name, desired := r.group.AutoScalingGroupName, int(aws.ToInt32(r.group.DesiredCapacity))
	old, begun := r.state[rollOld]
	batch, keep := max(numberOf(r.config["MaxBatchSize"], 1), 1), numberOf(r.config["MinInstancesInService"], 0)
	if !begun {
		var ids []string
		for _, i := range r.group.Instances {
			ids = append(ids, aws.ToString(i.InstanceId))
		}
		if keep >= int(aws.ToInt32(r.group.MaxSize)) && len(ids) > 0 {
			return outcome{}, resource.Errorf(resource.InvalidRequest,
				"MinInstancesInService must be less than the autoscaling group's MaxSize")
		}
		r.state[rollOld] = strings.Join(ids, ",")
		return r.saveState(ctx, fmt.Sprintf("Rolling update initiated. Terminating %d obsolete instance(s) in batches of "+
			"%d, while keeping at least %d instance(s) in service.", len(ids), batch, keep))
	}
	if processes := textList(r.config["SuspendProcesses"]); len(processes) > 0 && r.state["suspended"] == "" {
		if _, err := r.client.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: name,
			ScalingProcesses: processes}); err != nil {
			return outcome{}, err
		}
		r.state["suspended"] = "true"
		return r.saveState(ctx, "")
	}
	remaining := slices.DeleteFunc(strings.Split(old, ","), func(id string) bool { return id == "" || !r.has(id) })
	if r.state[rollBatch] != "" {
		return r.replaceBatch(ctx, desired)
	}
	if len(remaining) == 0 {
		return r.finish(ctx)
	}
	if r.inService() < desired {
		return r.pending(), nil
	}
	if desired <= keep {
		if r.state[rollDesired] == "" {
			r.state[rollDesired] = strconv.Itoa(desired)
			if o, err := r.saveState(ctx, ""); err != nil || o.err != nil {
				return o, err
			}
		}
		more := min(int32(keep+batch), aws.ToInt32(r.group.MaxSize))
		_, err := r.client.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: name,
			DesiredCapacity: &more})
		return r.pending(), err
	}
	size := min(batch, desired-keep, len(remaining))
	r.state[rollBatch] = strings.Join(remaining[:size], ",")
	r.state[rollSignals] = strconv.Itoa(r.countSignals())
	return r.saveState(ctx, fmt.Sprintf("Terminating instance(s) [%s]; replacing with %d new instance(s).",
		r.state[rollBatch], size))
}

// replaceBatch terminates the instances of a batch, waits for others, and pauses.
func (r *rolling) replaceBatch(ctx context.Context, desired int) (outcome, error) {
	batch := strings.Split(r.state[rollBatch], ",")
	for _, id := range batch {
		i := slices.IndexFunc(r.group.Instances, func(i astypes.Instance) bool { return aws.ToString(i.InstanceId) == id })
		if i < 0 || strings.HasPrefix(string(r.group.Instances[i].LifecycleState), "Terminat") {
			continue
		}
		if _, err := r.client.TerminateInstanceInAutoScalingGroup(ctx,
			&autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: aws.String(id),
				ShouldDecrementDesiredCapacity: aws.Bool(false)}); err != nil {
			return outcome{}, err
		}
	}
	if slices.ContainsFunc(batch, r.has) || r.inService() < desired {
		return r.pending(), nil
	}
	signals := boolOf(r.config["WaitOnResourceSignals"])
	pause := durationOf(r.config["PauseTime"], 0)
	if signals && r.config["PauseTime"] == nil {
		pause = 5 * time.Minute
	}
	if r.state[rollPaused] == "" {
		r.state[rollPaused] = r.c.now().UTC().Format(time.RFC3339Nano)
		return r.saveState(ctx, "")
	}
	since, err := time.Parse(time.RFC3339Nano, r.state[rollPaused])
	if err != nil {
		return outcome{}, err
	}
	ended := r.c.now().Sub(since) >= pause
	if signals {
		before, _ := strconv.Atoi(r.state[rollSignals])
		percent := numberOf(r.config["MinSuccessfulInstancesPercent"], 100)
		r.row.Value.Work.Policy = r.state
		s, o, err := r.receive(ctx, r.row, len(batch)+before, percent)
		switch {
		case err != nil:
			return outcome{}, err
		case o != nil:
			return *o, nil
		case s.failed:
			return outcome{}, resource.Errorf(resource.GeneralServiceException,
				"Received %d FAILURE signal(s) out of %d. Unable to satisfy %d%% MinSuccessfulInstancesPercent requirement",
				s.failures, len(batch), percent)
		case !s.satisfied && ended:
			return outcome{}, resource.Errorf(resource.GeneralServiceException,
				"Failed to receive %d resource signal(s) within the specified duration", len(batch)+before-s.successes)
		case !s.satisfied:
			return r.waitForSignals(r.row, since.Add(pause)), nil
		}
	} else if !ended {
		return r.waitForSignals(r.row, since.Add(pause)), nil
	}
	delete(r.state, rollBatch)
	delete(r.state, rollPaused)
	return r.saveState(ctx, "")
}

// finish restores what the update has changed of the group for its own time.
func (r *rolling) finish(ctx context.Context) (outcome, error) {
	name := r.group.AutoScalingGroupName
	if text := r.state[rollDesired]; text != "" {
		desired, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return outcome{}, err
		}
		if _, err := r.client.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: name,
			DesiredCapacity: aws.Int32(int32(desired))}); err != nil {
			return outcome{}, err
		}
	}
	if processes := textList(r.config["SuspendProcesses"]); len(processes) > 0 {
		if _, err := r.client.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{AutoScalingGroupName: name,
			ScalingProcesses: processes}); err != nil {
			return outcome{}, err
		}
	}
	return r.endDone(ctx, r.row), nil
}

func (r *rolling) has(id string) bool {
	return slices.ContainsFunc(r.group.Instances, func(i astypes.Instance) bool {
		return aws.ToString(i.InstanceId) == id
	})
}

func (r *rolling) inService() (n int) {
	for _, i := range r.group.Instances {
		if i.LifecycleState == astypes.LifecycleStateInService {
			n++
		}
	}
	return n
}

func (r *rolling) countSignals() int {
	return r.c.signals.Count(store.Prefix(r.stack.Account, r.stack.Region, r.stack.ID, r.row.Value.LogicalID))
}

func (r *rolling) pending() outcome {
	r.c.setWait(r.key, r.row.Value.LogicalID, 0, false)
	return outcome{after: max(r.c.dueIn(r.key, r.row.Value.LogicalID), time.Millisecond)}
}

func (r *rolling) saveState(ctx context.Context, reason string) (outcome, error) {
	w := *r.row.Value.Work
	w.Policy = r.state
	r.row.Value.Work = &w
	var events []record.StackEvent
	if reason != "" {
		events = append(events, resourceEvent(r.row.Value.LogicalID, w.Target, statusOf(w), reason))
	}
	var err error
	r.row, err = r.save(ctx, r.row, events...)
	if err != nil {
		return outcome{err: err}, nil //nolint:nilerr // the outcome has it
	}
	return outcome{progress: true}, nil
}

func textList(value any) (list []string) {
	items, _ := value.([]any)
	for _, item := range items {
		if text, ok := item.(string); ok {
			list = append(list, text)
		}
	}
	return list
}
