// Package autoscaling serves the Amazon EC2 Auto Scaling API.
//
// It records the desired state of groups and reports their observed state. A request is checked and recorded: what
// concerns a group in its [record.AutoScalingGroup], what concerns one instance of it (terminate it, put it into
// standby, its lifecycle action is complete) in an [record.AutoScalingOrder]. The controller
// internal/controller/autoscalinggroup reconciles that as a client of EC2, and writes the instances and the scaling
// activities that the describe operations show.
//
// What belongs together is written together: an instance that is to go and the desired capacity that goes down with it
// are one transaction, so that the controller never sees one without the other.
//
// Alarms are Amazon CloudWatch's, notifications are Amazon SNS's; what would need them is refused instead of recorded
// without effect.
//
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/Welcome.html
package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// servicePrincipal is the service principal of Auto Scaling in trust policies; serviceLinkedRole is the role in which
// it acts in an account.
const (
	servicePrincipal  = "autoscaling.amazonaws.com"
	serviceLinkedRole = "AWSServiceRoleForAutoScaling"
)

// ServiceLinkedRoles makes the role through which a service acts in an account.
type ServiceLinkedRoles interface {
	// Ensure makes the service-linked role of service ("autoscaling.amazonaws.com") in account unless it is there.
	Ensure(ctx context.Context, account, service string) error
}

// EC2 is the EC2 API, asked as the caller whether a launch template would launch.
type EC2 interface {
	RunInstances(context.Context, *ec2.RunInstancesInput) (*ec2.RunInstancesOutput, error)
	GetInstanceTypesFromInstanceRequirements(context.Context, *ec2.GetInstanceTypesFromInstanceRequirementsInput) (
		*ec2.GetInstanceTypesFromInstanceRequirementsOutput, error)
}

// Options configures a Service.
type Options struct {
	Store              *store.Store
	EC2                EC2
	ServiceLinkedRoles ServiceLinkedRoles
	Now                func() time.Time // time.Now unless set
}

// Service serves the Auto Scaling API. It is safe for concurrent use.
type Service struct {
	store      *store.Store
	groups     store.Table[record.AutoScalingGroup]
	instances  store.Table[record.AutoScalingInstance]
	orders     store.Table[record.AutoScalingOrder]
	activities store.Table[record.AutoScalingActivity]
	launches   store.Table[record.AutoScalingLaunch]
	refreshes  store.Table[record.AutoScalingRefresh]
	progress   store.Table[record.AutoScalingRefreshProgress]
	policies   store.Table[record.AutoScalingPolicy]
	schedules  store.Table[record.AutoScalingSchedule]
	statuses   store.Table[record.AutoScalingGroupStatus]
	// targets and balancers are those of Elastic Load Balancing that groups may be attached to.
	targets   store.Table[record.TargetGroup]
	balancers store.Table[record.LoadBalancer]
	ec2       EC2
	linked    ServiceLinkedRoles
	roles     store.Table[record.Role]
	now       func() time.Time
}

// New returns the service over the tables of o.Store.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{
		store:      o.Store,
		groups:     record.AutoScalingGroups(o.Store),
		instances:  record.AutoScalingInstances(o.Store),
		orders:     record.AutoScalingOrders(o.Store),
		activities: record.AutoScalingActivities(o.Store),
		launches:   record.AutoScalingLaunches(o.Store),
		refreshes:  record.AutoScalingRefreshes(o.Store),
		progress:   record.AutoScalingRefreshProgresses(o.Store),
		policies:   record.AutoScalingPolicies(o.Store),
		schedules:  record.AutoScalingSchedules(o.Store),
		statuses:   record.AutoScalingGroupStatuses(o.Store),
		targets:    record.TargetGroups(o.Store),
		balancers:  record.LoadBalancers(o.Store),
		ec2:        o.EC2,
		linked:     o.ServiceLinkedRoles,
		roles:      record.Roles(o.Store),
		now:        o.Now,
	}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.activityHandlers(),
		s.catalogHandlers(),
		s.createHandlers(),
		s.deleteHandlers(),
		s.describeHandlers(),
		s.hookHandlers(),
		s.instanceHandlers(),
		s.policyHandlers(),
		s.processHandlers(),
		s.refreshHandlers(),
		s.scheduleHandlers(),
		s.tagHandlers(),
		s.trafficHandlers(),
		s.unservedHandlers(),
		s.updateHandlers(),
		s.warmPoolHandlers(),
	} {
		mux.Register(wire.AutoScaling, handlers...)
	}
}

// scope is the account and region of a request.
type scope struct{ account, region string }

func scopeOf(ctx context.Context) scope {
	return scope{account: wire.CallerFrom(ctx).Account, region: wire.RegionFrom(ctx)}
}

func (sc scope) groupKey(name string) string {
	return record.AutoScalingGroupKey(sc.account, sc.region, name)
}
func (sc scope) keyPrefix() string { return store.Prefix(sc.account, sc.region) }
func (sc scope) instanceKey(id string) string {
	return record.EC2Key(sc.account, sc.region, id)
}

// getGroup returns the caller's group of that name, which may also be its ARN. Its value is the caller's own.
func (s *Service) getGroup(ctx context.Context, name *string) (store.Row[record.AutoScalingGroup], error) {
	at, asked := scopeOf(ctx), ""
	if name != nil {
		asked = *name
	}
	if _, after, ok := strings.Cut(asked, ":autoScalingGroupName/"); ok && strings.HasPrefix(asked, "arn:") {
		asked = after
	}
	row, err := s.groups.Copy(ctx, at.groupKey(asked))
	if errors.Is(err, store.ErrNotFound) {
		return row, noGroup(asked)
	}
	return row, err
}

// updateGroup edits a group's row, together with what else the edit needs, as often as it takes for no other writer to
// come between.
func (s *Service) updateGroup(ctx context.Context, name *string, edit func(*record.AutoScalingGroup) ([]store.Op,
	error)) error {
	for {
		row, err := s.getGroup(ctx, name)
		if err != nil {
			return err
		}
		if row.Value.Deleting {
			return deleting(row.Value.Name)
		}
		ops, err := edit(&row.Value)
		if err != nil {
			return err
		}
		err = s.store.Txn(ctx, append([]store.Op{s.groups.UpdateOp(row)}, ops...)...)
		if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExists) {
			continue
		}
		if err != nil {
			return fmt.Errorf("record the change of Auto Scaling group %s: %w", row.Value.Name, err)
		}
		return nil
	}
}

// timestamp returns now as the API shows it: in UTC, to the millisecond.
func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

func newUUID() string { return uuid.NewString() }

// formatTime returns a time as the causes of activities have it.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
