package fargate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// provision launches the machine of a pod. An account that may not have more in the store is a failure as others are,
// and so is a pod that cannot be annotated any more, or has too large claims.
func (p *podPass) provision(ctx context.Context) (time.Duration, error) {
	if remaining := p.pod.Value.RetryAt.Sub(p.c.now()); remaining > 0 {
		if free, err := p.isAddressFree(ctx); err != nil || !free {
			return remaining, err
		}
	}
	p.c.addresses.leave(p.key)
	p.pod.Value.AwaitsAddress = false
	after, err := p.ensureMachine(ctx)
	var full *store.FullError
	var unrecorded *unrecordedError
	switch {
	case p.pod.Value.InstanceID != "", errors.As(err, &unrecorded):
	case errors.As(err, &full):
		return p.recordLaunchFailure(ctx, full.Error())
	case errors.Is(err, client.ErrTooLarge), apierrors.IsInvalid(err):
		return p.recordLaunchFailure(ctx, fargate.UnsupportedPrefix+err.Error())
	}
	return after, err
}

// ensureMachine launches the machine of a pod.
func (p *podPass) ensureMachine(ctx context.Context) (time.Duration, error) {
	row := &p.pod.Value
	pod, err := p.load(ctx)
	if errors.Is(err, errPodGone) {
		return retryInterval, nil // its watch says so
	}
	if err != nil {
		return 0, err
	}
	logging, err := p.annotatePod(ctx, pod)
	if err != nil {
		return 0, err
	}
	profile, err := p.c.profiles.Get(ctx, record.FargateProfileKey(row.Account, row.Region, row.Cluster, row.Profile))
	if err != nil {
		return retryInterval, store.IgnoreNotFound(err) // it is going
	}
	if profile.Value.ID != row.ProfileID {
		return retryInterval, nil // likewise
	}
	if reason, err := p.c.roleProblem(ctx, p.server, p.cluster, profile.Value); err != nil || reason != "" {
		if err != nil {
			return 0, err
		}
		return p.recordLaunchFailure(ctx, launchBlockedMessage(row.Profile, reason))
	}
	volumes, problem, err := p.efsVolumes(ctx, pod)
	if err != nil {
		return 0, err
	}
	if problem != "" {
		return p.recordLaunchFailure(ctx, fargate.UnsupportedPrefix+problem)
	}
	config, err := p.nodeConfig(ctx, pod, volumes, logging)
	if err != nil {
		return 0, err
	}
	groups, err := p.securityGroups(ctx, pod)
	if err != nil {
		return 0, err
	}
	launched, reason, err := p.launch(ctx, profile.Value, pod, groups, config)
	if err != nil {
		return 0, err
	}
	if !launched {
		return p.recordLaunchFailure(ctx, reason)
	}
	return p.bind(ctx)
}

// annotatePod sets CapacityProvisioned, Logging and nominatedNodeName, as EKS does before there is a node, and returns
// the log router's settings, or nil.
func (p *podPass) annotatePod(ctx context.Context, pod *corev1.Pod) (*fargate.Logging, error) {
	row := p.pod.Value
	core := p.server.scheduler.CoreV1()
	namespace, err := core.Namespaces().Get(ctx, fargate.LoggingNamespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		namespace, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get namespace %s: %w", fargate.LoggingNamespace, err)
	}
	settings, err := core.ConfigMaps(fargate.LoggingNamespace).Get(ctx, fargate.LoggingConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		settings, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ConfigMap %s/%s: %w", fargate.LoggingNamespace, fargate.LoggingConfigMap, err)
	}
	annotation, text := fargate.CheckLogging(namespace, settings)
	enabled := annotation == fargate.LoggingEnabled
	size := fargate.Size{CPU: row.CPU, Memory: row.Memory, Storage: row.Storage}.String()
	if pod.Status.NominatedNodeName != row.ID || pod.Annotations[fargate.CapacityAnnotation] != size ||
		pod.Annotations[fargate.LoggingAnnotation] != annotation {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[fargate.CapacityAnnotation] = size
		pod.Annotations[fargate.LoggingAnnotation] = annotation
		pod.Status.NominatedNodeName = row.ID
		if enabled { // before the annotation, with which it would not be emitted again
			p.event(ctx, corev1.EventTypeNormal, fargate.LoggingEnabled, 1, text)
		} else {
			p.event(ctx, corev1.EventTypeWarning, fargate.LoggingDisabled, 1, text)
		}
		crashLogging.Here()
		if err := p.updateStatus(ctx, pod); err != nil {
			return nil, err
		}
		crashNamed.Here()
	}
	if !enabled {
		return nil, nil
	}
	logging := fargate.LoggingOf(settings)
	return &logging, nil
}

// launch makes the machine in one of the subnets of the profile, or says why there is none.
func (p *podPass) launch(ctx context.Context, profile record.FargateProfile, pod *corev1.Pod, groups []string,
	config func(address, nodeName, zone string) ([]byte, error)) (launched bool, reason string, err error) {
	subnets, reason, err := p.chooseSubnet(ctx, profile, pod)
	if err != nil || reason != "" {
		return false, reason, err
	}
	row := &p.pod.Value
	for _, s := range subnets {
		row.SubnetID, row.Zone = s.id, s.zone
		if err := p.saveCharged(ctx); err != nil {
			return false, "", err
		}
		crashChosen.Here()
		instance, eni, err := p.c.o.Machines.Launch(store.Limited(ctx), Launch{
			Account: row.Account, Region: row.Region, SubnetID: s.id, SecurityGroupIDs: groups,
			Machine: record.FargateMachine{
				Capacity: row.ID, ClusterID: row.ClusterID, Cluster: row.Cluster, RoleARN: profile.PodExecutionRoleARN,
				ProfileARN: profile.ARN(), CPU: row.CPU, Memory: row.Memory, Storage: row.Storage,
			},
			IPv6: p.isIPv6(), NodeConfig: config,
		})
		switch {
		case apierror.Code(err) == "InsufficientFreeAddressesInSubnet":
			reason = apierror.Message(err)
			continue
		case apierror.Code(err) != "":
			return false, apierror.Message(err), nil
		case err != nil:
			return false, "", fmt.Errorf("launch a machine: %w", err)
		}
		crashLaunched.Here()
		return true, "", p.recordMachine(ctx, instance, eni)
	}
	row.AwaitsAddress = true
	return false, reason, nil
}

// recordMachine records the machine of the pod.
func (p *podPass) recordMachine(ctx context.Context, instance record.Instance, eni record.NetworkInterface) error {
	row := &p.pod.Value
	row.InstanceID, row.NetworkInterfaceID = instance.ID, eni.ID
	row.SubnetID, row.Zone = instance.SubnetID, instance.AvailabilityZone // of an earlier launch with this ID, maybe
	row.LaunchedAt = p.c.now()
	addresses := eni.PrivateIPs
	if p.isIPv6() {
		addresses = eni.IPv6IPs
	}
	if len(addresses) > 0 {
		row.Address = addresses[0]
	}
	if instance.Fargate != nil {
		row.NodeName = instance.Fargate.NodeName
	}
	p.c.byMachine.Store(p.machineKey(), p.key) // before anything is heard of it
	if err := p.saveUncharged(ctx); err != nil {
		return err
	}
	crashRecorded.Here()
	// An earlier pod may have had the address, and its node be left: the kubelet would take it over with its age.
	if node, ok := p.server.node(row.NodeName); ok && node.created.Before(row.Since.Truncate(time.Second)) {
		return p.deleteNode(ctx, row.NodeName, node.uid)
	}
	return nil
}

// bind binds the pod to its node once that is Ready.
func (p *podPass) bind(ctx context.Context) (time.Duration, error) {
	row := &p.pod.Value
	machine, dead, err := p.machine(ctx)
	if err != nil {
		return 0, err
	}
	if dead {
		return p.recordLaunchFailure(ctx, machineProblem(row.Profile, machine.Failure, unavailable))
	}
	node, ok := p.server.node(row.NodeName)
	if !ok || !node.ready {
		if machine.Failing != "" && machine.Failing != row.Failure {
			p.warn(ctx, machineProblem(row.Profile, machine.Failing, ""))
			row.Failure = client.Cut(machine.Failing)
			if err := p.saveCharged(ctx); err != nil {
				return 0, err
			}
		}
		remaining := row.LaunchedAt.Add(p.c.o.ProvisionTimeout).Sub(p.c.now())
		if remaining > 0 {
			return remaining, nil // the node and the machine say when something changes
		}
		reason := timedOut
		if machine.Failing != "" {
			reason += ": " + machine.Failing
		}
		return p.recordLaunchFailure(ctx, reason)
	}
	err = p.server.scheduler.CoreV1().Pods(row.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: row.Namespace, Name: row.Name, UID: uidOf(p.uid)},
		Target:     corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: row.NodeName},
	}, metav1.CreateOptions{FieldManager: fargate.SchedulerManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return retryInterval, nil // the pod is gone, or has a node: its watch says which
	}
	if err != nil {
		return 0, fmt.Errorf("bind to node %s: %w", row.NodeName, err)
	}
	crashBound.Here()
	p.info.nodeName = row.NodeName
	return p.recordBinding(ctx)
}

// machineProblem returns the text of the event about a machine that has a problem: a role that cannot be assumed in
// EKS's words.
func machineProblem(profile, problem, otherwise string) string {
	switch {
	case strings.Contains(problem, "AssumeRole"), strings.Contains(problem, "assume"):
		return launchBlockedMessage(profile, roleNotTrusting)
	case problem == "":
		return otherwise
	}
	return problem
}

// anotherReason is the number of failures in a row that count when a launch fails for another reason than before. Who
// makes up reasons has launches tried no more often.
const anotherReason = 3

// unrecordedError is the error of a failure that could not be recorded: it is tried again, and is none of its own.
type unrecordedError struct{ error }

func (e *unrecordedError) Unwrap() error { return e.error }

// recordLaunchFailure records a failed launch, or a machine that did not become a node, emits an event and schedules a
// retry with back-off.
func (p *podPass) recordLaunchFailure(ctx context.Context, reason string) (time.Duration, error) {
	row := &p.pod.Value
	reason = client.Cut(reason)
	if row.Failure != reason && row.InstanceID == "" {
		row.Failures = min(row.Failures, anotherReason) // it may be over soon
	}
	row.Failures++
	row.Failure, row.RetryAt = reason, p.c.now().Add(p.backoff(row.Failures))
	row.Retired = row.InstanceID != ""
	p.event(ctx, corev1.EventTypeWarning, failedScheduling, row.Failures, reason) // before a kill can keep it back
	within := ctx
	if !row.Retired { // users say how often that is, and with which texts; a machine is to go whatever was written
		within = store.Paced(ctx)
	}
	if err := p.saveUncharged(within); err != nil {
		return 0, &unrecordedError{err}
	}
	p.c.log.Warn("cannot provision Fargate machine", "cluster", row.Cluster, "pod", row.Namespace+"/"+row.Name,
		"failures", row.Failures, "reason", reason)
	if row.Retired {
		crashRetired.Here()
		return p.replaceMachine(ctx)
	}
	if row.AwaitsAddress {
		p.c.addresses.wait(p.key)
	}
	return max(time.Millisecond, row.RetryAt.Sub(p.c.now())), nil
}

// backoff returns how long to wait after so many failures.
func (p *podPass) backoff(failures int) time.Duration {
	wait := p.c.o.RetryFirst
	for range failures - 1 {
		if wait *= 2; wait >= p.c.o.RetryMost {
			break
		}
	}
	return min(wait, p.c.o.RetryMost)
}
