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

// needsRollingUpdate reports whether an update of a group concerns its instances.
func needsRollingUpdate(old, target record.StackPhysical) bool {
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
	rollMissed  = "missed"  // how many instances of earlier batches sent none in time
	rollSuspend = "suspend" // the processes that are suspended, with commas
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
		return r.retry(ctx, r.row, resource.Result{}, err)
	}
	r.abandonRolling(ctx, *r.row.Value.Work)
	return r.endFailed(ctx, r.row, resource.Reason(err, r.row.Value.Work.Token), resource.Result{})
}

func (r *rolling) step(ctx context.Context) (outcome, error) {
	name, desired := r.group.AutoScalingGroupName, int(aws.ToInt32(r.group.DesiredCapacity))
	old, begun := r.state[rollOld]
	batch, keep := max(numberOf(r.config["MaxBatchSize"], 1), 1), numberOf(r.config["MinInstancesInService"], 0)
	if !begun {
		var ids []string
		for _, i := range r.group.Instances {
			if r.isObsolete(i) {
				ids = append(ids, aws.ToString(i.InstanceId))
			}
		}
		if keep >= int(aws.ToInt32(r.group.MaxSize)) && len(ids) > 0 {
			return outcome{}, resource.Errorf(resource.InvalidRequest,
				"MinInstancesInService must be less than the autoscaling group's MaxSize")
		}
		r.state[rollOld] = strings.Join(ids, ",")
		return r.saveState(ctx, fmt.Sprintf("Rolling update initiated. Terminating %d obsolete instance(s) in batches of "+
			"%d, while keeping at least %d instance(s) in service.", len(ids), batch, keep))
	}
	if processes := textList(r.config["SuspendProcesses"]); len(processes) > 0 && r.state[rollSuspend] == "" {
		if _, err := r.client.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: name,
			ScalingProcesses: processes}); err != nil {
			return outcome{}, err
		}
		r.state[rollSuspend] = strings.Join(processes, ",")
		return r.saveState(ctx, "")
	}
	remaining := slices.DeleteFunc(strings.Split(old, ","), func(id string) bool { return id == "" || !r.has(id) })
	if r.state[rollBatch] != "" {
		return r.replaceBatch(ctx, desired)
	}
	if len(remaining) == 0 {
		return r.finish(ctx)
	}
	if r.inService() < r.minActive(desired) {
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
	size := min(batch, min(desired, r.inService())-keep, len(remaining))
	if size <= 0 {
		return r.pending(), nil
	}
	r.state[rollBatch] = strings.Join(remaining[:size], ",")
	signals, err := r.signalsOf(ctx, r.row.Value.LogicalID, strings.Split(old, ","))
	if err != nil {
		return outcome{}, err
	}
	r.state[rollSignals] = strconv.Itoa(len(signals))
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
	if slices.ContainsFunc(batch, r.has) || r.inService() < r.minActive(desired) {
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
	wait, err := r.awaitSignals(ctx, len(batch), signals, since.Add(pause))
	if err != nil {
		return outcome{}, err
	}
	if wait != nil {
		return *wait, nil
	}
	delete(r.state, rollBatch)
	delete(r.state, rollPaused)
	return r.saveState(ctx, "")
}

// awaitSignals waits for the end of the pause after a batch, or for a signal of each of its instances. An instance that
// sends none until then counts as one that failed.
func (r *rolling) awaitSignals(ctx context.Context, batch int, signals bool, end time.Time) (*outcome, error) {
	ended := !r.c.now().Before(end)
	if !signals {
		if !ended {
			return new(r.waitForSignals(r.row, end)), nil
		}
		return nil, nil
	}
	w := *r.row.Value.Work
	w.Policy = r.state
	r.row.Value.Work = &w
	old := strings.Split(r.state[rollOld], ",") // whose signals, if any come, are of their own launch
	s, o, err := r.receive(ctx, r.row, old)
	if err != nil || o != nil {
		return o, err
	}
	total := len(old)
	percent := numberOf(r.config["MinSuccessfulInstancesPercent"], 100)
	before, _ := strconv.Atoi(r.state[rollSignals])
	missed, _ := strconv.Atoi(r.state[rollMissed])
	tolerated := total - share(total, percent)
	if s.failures+missed > tolerated {
		return nil, resource.Errorf(resource.GeneralServiceException,
			"Received %d FAILURE signal(s) out of %d. Unable to satisfy %d%% MinSuccessfulInstancesPercent requirement",
			s.failures, total, percent)
	}
	missing := batch - (s.successes + s.failures - before)
	switch {
	case missing <= 0:
		return nil, nil
	case !ended:
		return new(r.waitForSignals(r.row, end)), nil
	case s.failures+missed+missing > tolerated:
		return nil, resource.Errorf(resource.GeneralServiceException,
			"Failed to receive %d resource signal(s) within the specified duration", missing)
	}
	r.state[rollMissed] = strconv.Itoa(missed + missing)
	return nil, nil
}

// finish restores what the update has changed of the group for its own time.
func (r *rolling) finish(ctx context.Context) (outcome, error) {
	if err := restoreGroup(ctx, r.client, aws.ToString(r.group.AutoScalingGroupName), r.state); err != nil {
		return outcome{}, err
	}
	return r.endDone(ctx, r.row), nil
}

// restoreGroup sets the desired capacity of a group that a rolling update has raised, and resumes the processes that it
// has suspended.
func restoreGroup(ctx context.Context, client *autoscaling.Client, name string, state map[string]string) error {
	if text := state[rollDesired]; text != "" {
		desired, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return err
		}
		if _, err := client.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &name,
			DesiredCapacity: aws.Int32(int32(desired))}); err != nil {
			return err
		}
	}
	if state[rollSuspend] == "" {
		return nil
	}
	_, err := client.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{AutoScalingGroupName: &name,
		ScalingProcesses: strings.Split(state[rollSuspend], ",")})
	return err
}

// abandonRolling ends a rolling update before its time. What cannot be restored stays as it is: the rollback, or the
// deletion, that follows says so.
func (p *pass) abandonRolling(ctx context.Context, w record.StackWork) {
	if w.Target.Type != autoScalingGroup || w.Action != record.ResourceUpdate || len(w.Policy) == 0 {
		return
	}
	err := restoreGroup(ctx, autoscaling.NewFromConfig(p.config), w.Target.PhysicalID, w.Policy)
	if err != nil {
		p.c.log.Warn("an Auto Scaling group keeps the capacity or the suspended processes of a rolling update",
			"stack", p.stack.Name, "group", w.Target.PhysicalID, "error", err)
	}
}

// isObsolete reports whether an instance has to be replaced: it was launched as the group does no more.
func (r *rolling) isObsolete(i astypes.Instance) bool {
	before, err := revision.Resource(*r.row.Value.Live)
	if err != nil {
		return true
	}
	after, err := revision.Resource(r.row.Value.Work.Target)
	if err != nil {
		return true
	}
	for _, name := range launchProperties {
		if name != "LaunchTemplate" && !plan.Equal(before.Properties[name], after.Properties[name]) {
			return true
		}
	}
	want, has := r.group.LaunchTemplate, i.LaunchTemplate
	return want == nil || has == nil || aws.ToString(want.LaunchTemplateId) != aws.ToString(has.LaunchTemplateId) ||
		aws.ToString(want.Version) != aws.ToString(has.Version)
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

// minActive returns how many instances must be in service before the update goes on: all that are desired, unless the
// policy says how many of them.
func (r *rolling) minActive(desired int) int {
	return share(desired, numberOf(r.config["MinActiveInstancesPercent"], 100))
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
