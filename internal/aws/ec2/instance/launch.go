package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// reservationNames is the form of the IDs of reservations, under which the client tokens of launches are stored.
var reservationNames = resource.Naming{Prefix: "r-"}

const (
	// maxInstances is the quota of instances of an account in a region.
	maxInstances = 20000
	// operationsPerChange keeps a transaction within what any etcd takes: 128 operations, of which a launch needs up to
	// eight, and two for each volume. A larger request is several of them.
	operationsPerChange = 110
)

// perChange returns the number of instances that are launched in one transaction.
func (l *Launch) perChange() int { return min(10, max(1, operationsPerChange/(8+2*len(l.volumes)))) }

// PerChange is the number of instances that are changed in one transaction, which stays within etcd's default limit of
// 128 operations; a stop needs three an instance. A larger request takes several transactions.
const PerChange = 40

// launchHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) launchHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.RunInstances, s.runTargets),
	}
}

// runTargets returns the authorization targets of a launch: the resources that it uses and creates.
func (s *Service) runTargets(ctx context.Context, action string, request *ec2.RunInstancesInput) (
	[]wire.Target, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	return s.launchTargets(sc, action, "RunInstances", request, sc.IsService()), nil
}

// RunInstances launches instances: it records what is wanted, and internal/host/machine boots them.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html
func (s *Service) RunInstances(ctx context.Context, in *ec2.RunInstancesInput) (*ec2.RunInstancesOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	l, err := s.ReadLaunch(sc, in, sc.IsService())
	if err != nil {
		return nil, err
	}
	launched, err := s.LaunchInstances(sc, l)
	if err != nil {
		return nil, err
	}
	out := &ec2.RunInstancesOutput{Groups: []types.GroupIdentifier{}, OwnerId: aws.String(sc.Account),
		Instances: []types.Instance{}}
	if len(launched) > 0 {
		out.ReservationId, out.RequesterId = aws.String(launched[0].ReservationID), resource.OrNil(launched[0].RequesterID)
	}
	related, err := s.loadRelated(sc, launched)
	related.launched = l.launched
	for _, r := range launched {
		out.Instances = append(out.Instances, s.viewInstance(sc, r, related))
	}
	return out, err
}

// LaunchInstances authorizes a launch and launches as many instances as the quotas and subnets allow, up to MaxCount,
// or none if they do not allow MinCount. For a client token that has been used before it returns the instances that
// were launched then.
func (s *Service) LaunchInstances(sc resource.Scope, l *Launch) ([]record.Instance, error) {
	sc.DryRun = aws.ToBool(l.request.DryRun)
	if err := s.authorizeLaunch(sc, l); err != nil {
		return nil, err
	}
	var reservation string
	var launched []record.Instance
	for {
		var id string
		var existing, added []record.Instance
		done := false
		err := s.CommitPlan(sc, l.request.DryRun, func(c *resource.Change) (err error) {
			id, added, done = cmp.Or(reservation, resource.NewID(reservationNames.Prefix)), nil, false
			if existing, id, err = reserve(c, l, id, reservation != ""); err != nil {
				return err
			}
			if len(existing) >= l.most || reservation == "" && len(existing) >= l.least {
				done = true
				return nil
			}
			added, err = addLaunches(c, l, id, len(existing), min(l.most-len(existing), l.perChange()))
			return err
		})
		switch {
		case err == nil:
			reservation, launched = id, append(existing, added...)
			for _, r := range added {
				l.launched = append(l.launched, r.ID)
			}
			if done || len(launched) >= l.most || len(added) == 0 {
				return launched, nil
			}
		case len(launched) >= l.least && len(launched) > 0:
			return launched, nil // all that the quotas and subnets allow
		default:
			return nil, errors.Join(err, s.TerminateLaunched(sc, launched))
		}
	}
}

// reserve returns the reservation of a launch and the instances that are in it already: those of an earlier request
// with the same client token, or, when the launch continues, those of its earlier transactions.
func reserve(
	c *resource.Change, l *Launch, id string, continues bool,
) (existing []record.Instance, reservation string, err error) {
	token := aws.ToString(l.request.ClientToken)
	if !continues {
		prior, err := c.CheckClientToken(&token, reservationNames, id, l.asked)
		if err != nil {
			return nil, "", err
		}
		if prior == "" {
			return nil, id, nil
		}
		id = prior
	}
	existing, err = c.Instances.List(c.Scope, func(r record.Instance) bool { return r.ReservationID == id })
	slices.SortFunc(existing, func(a, b record.Instance) int { return cmp.Compare(a.LaunchIndex, b.LaunchIndex) })
	if err == nil && token != "" {
		// Two attempts at the same time must not both launch what is missing.
		row, err := c.ClientTokens.Get(c, record.EC2ClientTokenKey(c.Account, c.Region, reservationNames.Prefix, token))
		if err != nil {
			return nil, "", err
		}
		if len(existing) < l.least {
			c.Add("token/"+id, func() store.Op { return c.ClientTokens.UpdateOp(row) })
		}
	}
	return existing, id, err
}

// TerminateLaunched terminates what an unsuccessful launch has launched.
func (s *Service) TerminateLaunched(sc resource.Scope, launched []record.Instance) error {
	if len(launched) == 0 {
		return nil
	}
	var ids []string
	for _, r := range launched {
		ids = append(ids, r.ID)
	}
	for some := range slices.Chunk(ids, PerChange) {
		if err := s.CommitPlan(sc, nil, func(c *resource.Change) error {
			return eachInstance(c, some, func(r *record.Instance, _ types.InstanceStateName) error {
				Terminate(c, r, "Server.InternalError", "Launch of the reservation failed", "Server.InternalError")
				return nil
			})
		}); err != nil {
			return fmt.Errorf("terminate what was launched: %w", err)
		}
	}
	return nil
}

// addLaunches adds up to n instances of a launch to the change. existing is the number of instances that the launch
// has.
func addLaunches(c *resource.Change, l *Launch, reservation string, existing, n int) ([]record.Instance, error) {
	all, err := c.Instances.List(c.Scope, nil)
	if err != nil {
		return nil, err
	}
	if len(all)+max(l.least-existing, 1) > maxInstances {
		return nil, wire.Errorf("InstanceLimitExceeded",
			"You have requested more instances (%d) than your current instance limit of %d allows for the specified "+
				"instance type. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment "+
				"to this limit.", len(all)+l.least-existing, maxInstances)
	}
	interfaces, err := resolveInterfaces(c, l)
	if err != nil {
		return nil, err
	}
	// All of the missing MinCount must be possible, even if this transaction adds only some of it.
	possible := maxInstances - len(all)
	for _, p := range interfaces {
		need := 0
		for _, other := range interfaces {
			if other.existing == "" && other.subnet.ID == p.subnet.ID {
				need += other.automatic
			}
		}
		if p.existing == "" && need > 0 {
			possible = min(possible, networkinterface.FreeAddresses(c.Records, c.Scope, p.subnet)/need)
		}
	}
	if n = min(n, possible); n < 1 || possible < l.least-existing {
		return nil, insufficientAddresses()
	}
	perInstance := 0
	for _, p := range interfaces {
		if p.existing == "" {
			perInstance++
		}
	}
	if err := networkinterface.CheckQuota(c, n*perInstance); err != nil {
		return nil, err
	}
	rows := make([]record.Instance, n)
	for i := range rows {
		if rows[i], err = addLaunch(c, l, interfaces, reservation, int32(existing+i)); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func insufficientAddresses() error {
	return wire.Errorf("InsufficientFreeAddressesInSubnet",
		"The specified subnet does not have enough free addresses to satisfy the request.")
}

// addLaunch adds one instance with its network interfaces and volumes to the change.
func addLaunch(
	c *resource.Change, l *Launch, interfaces []launchInterface, reservation string, index int32,
) (record.Instance, error) {
	in := &l.request
	now := c.Now().UTC()
	r := record.Instance{
		EC2Resource:                     c.NewResource(resource.NewID(c.Instances.Prefix), in.ClientToken),
		ReservationID:                   reservation,
		LaunchIndex:                     index,
		ImageID:                         l.image.ID,
		InstanceType:                    types.InstanceType(l.instanceType.Name),
		AvailabilityZone:                interfaces[0].zone,
		VPCID:                           interfaces[0].vpcID,
		SubnetID:                        interfaces[0].subnetID,
		KeyName:                         aws.ToString(in.KeyName),
		UserData:                        l.userData,
		Metadata:                        l.metadata,
		HostnameType:                    interfaces[0].hostnameType,
		EnableResourceNameDNSARecord:    interfaces[0].resourceNameA,
		EnableResourceNameDNSAAAARecord: interfaces[0].resourceNameAAAA,
		LaunchTemplateID:                l.template.TemplateID,
		Tenancy:                         interfaces[0].tenancy,
		ShutdownBehavior:                cmp.Or(in.InstanceInitiatedShutdownBehavior, types.ShutdownBehaviorStop),
		DisableAPITermination:           aws.ToBool(in.DisableApiTermination),
		DisableAPIStop:                  aws.ToBool(in.DisableApiStop),
		DetailedMonitoring:              in.Monitoring != nil && aws.ToBool(in.Monitoring.Enabled),
		EBSOptimized:                    aws.ToBool(in.EbsOptimized),
		AutoRecovery:                    types.InstanceAutoRecoveryStateDefault,
		LaunchTime:                      now,
		Wanted:                          types.InstanceStateNameRunning,
		Boot:                            1,
		WantedSince:                     now,
	}
	if c.IsService() {
		r.RequesterID = c.Caller.UserID
	}
	if l.template.TemplateID != "" {
		r.LaunchTemplateVersion = strconv.FormatInt(l.template.Number, 10)
	}
	if l.profile != nil {
		r.InstanceProfileARN, r.InstanceProfileID = l.profile.ARN(), l.profile.ID
		r.InstanceProfileAssociationID = resource.NewID("iip-assoc-")
	}
	if in.MaintenanceOptions != nil {
		r.AutoRecovery = cmp.Or(in.MaintenanceOptions.AutoRecovery, r.AutoRecovery)
	}
	if l.instanceType.Burstable {
		r.CPUCredits = l.cpuCredits()
	}
	if o := in.PrivateDnsNameOptions; o != nil {
		r.HostnameType = cmp.Or(o.HostnameType, r.HostnameType)
		if o.EnableResourceNameDnsARecord != nil {
			r.EnableResourceNameDNSARecord = *o.EnableResourceNameDnsARecord
		}
		if o.EnableResourceNameDnsAAAARecord != nil {
			r.EnableResourceNameDNSAAAARecord = *o.EnableResourceNameDnsAAAARecord
		}
	}
	if l.group.ID != "" {
		r.PlacementGroup = l.group.Name
		if l.group.Strategy == types.PlacementStrategyPartition {
			r.PartitionNumber = aws.ToInt32(in.Placement.PartitionNumber)
			if r.PartitionNumber == 0 {
				r.PartitionNumber = index%l.group.Partitions + 1
			}
		}
		if err := c.PlacementGroups.Require(c, l.group.ID); err != nil {
			return r, err
		}
	}
	for i, p := range interfaces {
		if err := attachInterface(c, &r, p, l, i == 0 && len(interfaces) == 1); err != nil {
			return r, err
		}
	}
	for _, v := range l.volumes {
		row, err := v.draft.Create(c, resource.NewID(c.Volumes.Prefix), nil, r.AvailabilityZone, func(v *record.Volume) {
			v.InstanceID = r.ID
		})
		if err != nil {
			return r, err
		}
		r.BlockDevices = append(r.BlockDevices, record.InstanceBlockDevice{
			DeviceName: v.device, VolumeID: row.ID, DeleteOnTermination: v.deleteOnTermination, AttachedAt: now,
			Root: v.root,
		})
		if err := tagLaunched(c, types.ResourceTypeVolume, row.ID, l, nil); err != nil {
			return r, err
		}
	}
	if l.spot != nil {
		if err := newSpotRequest(c, &r, l); err != nil {
			return r, err
		}
	}
	system := map[string]string{}
	if l.template.TemplateID != "" {
		system["aws:ec2launchtemplate:id"], system["aws:ec2launchtemplate:version"] = r.LaunchTemplateID,
			r.LaunchTemplateVersion
	}
	if l.Fleet != "" {
		system["aws:ec2:fleet-id"] = l.Fleet
	}
	if err := tagLaunched(c, types.ResourceTypeInstance, r.ID, l, system); err != nil {
		return r, err
	}
	c.Instances.CreateRecord(c, r)
	return r, nil
}

// tagLaunched gives what a launch makes the tags that the request has for its type, and those of AWS.
func tagLaunched(
	c *resource.Change, resource types.ResourceType, id string, l *Launch, system map[string]string,
) error {
	tags := l.tags[resource]
	if len(tags)+len(system) == 0 {
		return nil
	}
	return c.EditTags(resource, id, func(now map[string]string) error {
		for _, t := range tags {
			now[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		for key, value := range system {
			now[key] = value
		}
		return nil
	})
}
