package autoscalinggroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The words of scaling activities are those that AWS uses; tools and people look for them.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-verify-scaling-activity.html

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// because returns the beginning of a cause: the change of the desired capacity that nothing was done about yet, if
// there is one.
func (v *view) because() string {
	change := v.group.Change
	if change.ID == "" || change.ID == v.status.Answered {
		return ""
	}
	return fmt.Sprintf("At %s %s changing the desired capacity from %d to %d.  ", formatTime(change.At), change.By,
		change.From, change.To)
}

// markAnswered remembers that the newest change was given as a cause.
func (v *view) markAnswered() { v.status.Answered = v.group.Change.ID }

func growing(now time.Time, from, to int32) string {
	return fmt.Sprintf(
		"At %s an instance was started in response to a difference between desired and actual capacity, increasing "+
			"the capacity from %d to %d.", formatTime(now), from, to)
}

func replacing(now time.Time) string {
	return fmt.Sprintf("At %s an instance was launched in response to an unhealthy instance needing to be replaced.",
		formatTime(now))
}

// maxChosen is the number of instances that the cause of an activity names: each of them has an activity of its own.
const maxChosen = 10

// shrinking returns why instances are terminated when there are more than are desired.
func shrinking(now time.Time, from, to int32, chosen []*member) string {
	var text strings.Builder
	fmt.Fprintf(&text,
		"At %s an instance was taken out of service in response to a difference between desired and actual capacity, "+
			"shrinking the capacity from %d to %d.", formatTime(now), from, to)
	for _, m := range chosen[:min(len(chosen), maxChosen)] {
		fmt.Fprintf(&text, "  At %s instance %s was selected for termination.", formatTime(now), m.row.ID)
	}
	return text.String()
}

func unhealthy(now time.Time, why string) string {
	return fmt.Sprintf("At %s an instance was taken out of service in response to %s.", formatTime(now), why)
}

// newActivity returns an activity that begins now.
func (v *view) newActivity(now time.Time, id, instance, description, cause, zone,
	subnet string) record.AutoScalingActivity {
	if id == "" {
		id = uuid.NewString()
	}
	details := map[string]string{"Availability Zone": zone}
	if subnet != "" {
		details["Subnet ID"] = subnet
	}
	text, err := json.Marshal(details)
	if err != nil {
		panic(err) // strings
	}
	return record.AutoScalingActivity{
		ID: id, GroupName: v.group.Name, GroupID: v.group.ID, InstanceID: instance, Description: description,
		Cause:      cause,
		StatusCode: types.ScalingActivityStatusCodeInProgress, StartTime: now, Details: string(text),
	}
}

func (v *view) activityKey(id string) string {
	return store.Key(v.group.Account, v.group.Region, v.group.Name, id)
}

// endActivity returns the op that ends the activity under way with a member.
func (c *Controller) endActivity(ctx context.Context, v *view, m *member, code types.ScalingActivityStatusCode,
	message string) ([]store.Op, error) {
	return c.changeActivity(ctx, v, m, func(a *record.AutoScalingActivity) {
		a.StatusCode, a.StatusMessage, a.EndTime, a.Progress = code, message, c.now(), 100
	})
}

// changeActivity returns the op that changes the activity under way with a member; none when there is none.
func (c *Controller) changeActivity(ctx context.Context, v *view, m *member, change func(*record.AutoScalingActivity)) (
	[]store.Op, error) {
	if m.row.ActivityID == "" {
		return nil, nil
	}
	row, err := c.activities.Copy(ctx, v.activityKey(m.row.ActivityID))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	change(&row.Value)
	return []store.Op{c.activities.PutOp(row.Key, row.Value)}, nil
}

func (c *Controller) now() time.Time { return c.clock.Now().UTC().Truncate(time.Millisecond) }

// maxActivities is the number of finished activities of a group that are kept. AWS keeps those of six weeks.
const maxActivities = 1000

// pruneActivities removes the oldest activities when there are many.
func (c *Controller) pruneActivities(ctx context.Context, v *view) error {
	rows, err := c.activities.List(ctx, store.Prefix(v.group.Account, v.group.Region, v.group.Name))
	if err != nil || len(rows) <= maxActivities+100 {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r store.Row[record.AutoScalingActivity]) bool {
		return r.Value.EndTime.IsZero()
	})
	slices.SortFunc(rows, func(a, b store.Row[record.AutoScalingActivity]) int {
		return a.Value.EndTime.Compare(
			b.Value.EndTime)
	})
	if len(rows) <= maxActivities {
		return nil
	}
	rows = rows[:len(rows)-maxActivities]
	var ops []store.Op
	for _, row := range rows[:min(len(rows), 100)] {
		ops = append(ops, c.activities.RemoveOp(row.Key))
	}
	return c.store.Txn(ctx, ops...)
}
