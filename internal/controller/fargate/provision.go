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

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// provision launches the machine of a pod. An account that may not have more in the store is a failure as others are.
func (w *work) provision(ctx context.Context) (time.Duration, error) {
	if rest := w.row.Value.RetryAt.Sub(w.c.now()); rest > 0 {
		return rest, nil
	}
	after, err := w.makeMachine(ctx)
	var full *store.FullError
	if w.row.Value.InstanceID == "" && errors.As(err, &full) {
		return w.fail(ctx, full.Error())
	}
	return after, err
}

// makeMachine launches the machine of a pod, whose time it is.
func (w *work) makeMachine(ctx context.Context) (time.Duration, error) {
	row := &w.row.Value
	pod, err := w.load(ctx)
	if errors.Is(err, errPodGone) {
		return retryInterval, nil // its watch says so
	}
	if err != nil {
		return 0, err
	}
	logging, err := w.announce(ctx, pod)
	if err != nil {
		return 0, err
	}
	p, err := w.c.profiles.Get(ctx, record.FargateProfileKey(row.Account, row.Region, row.Cluster, row.Profile))
	if err != nil {
		return retryInterval, ignoreNotFound(err) // it is going
	}
	if p.Value.ID != row.ProfileID {
		return retryInterval, nil // likewise
	}
	if why, err := w.roleProblem(ctx, p.Value); err != nil || why != "" {
		if err != nil {
			return 0, err
		}
		return w.fail(ctx, blocked(row.Profile, why))
	}
	config, err := w.nodeConfig(ctx, pod, logging)
	if err != nil {
		return 0, err
	}
	groups, err := w.securityGroups(ctx, pod)
	if err != nil {
		return 0, err
	}
	launched, why, err := w.launch(ctx, p.Value, pod, groups, config)
	if err != nil {
		return 0, err
	}
	if !launched {
		return w.fail(ctx, why)
	}
	return w.bind(ctx)
}

// roleProblem returns why no node can join with the profile's role; empty when one can.
func (w *work) roleProblem(ctx context.Context, p record.FargateProfile) (string, error) {
	role, err := record.Roles(w.c.o.Store).Get(ctx, record.RoleKey(p.Account, roleName(p)))
	if errors.Is(err, store.ErrNotFound) || err == nil && role.Value.ARN() != p.PodExecutionRoleARN {
		return roleNotTrusting, nil
	}
	if err != nil {
		return "", err
	}
	ok, err := w.c.isRoleLetIn(ctx, w.server, w.cluster, p)
	if err != nil || ok {
		return "", err
	}
	return roleNotLetIn, nil
}

// announce writes down at the pod what it is given and where it will run, as EKS does before there is a node, and tells
// whether its logs are routed. It returns the settings of the log router, nil without.
func (w *work) announce(ctx context.Context, pod *corev1.Pod) (*fargate.Logging, error) {
	row := w.row.Value
	core := w.server.scheduler.CoreV1()
	namespace, err := core.Namespaces().Get(ctx, fargate.LoggingNamespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		namespace, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	settings, err := core.ConfigMaps(fargate.LoggingNamespace).Get(ctx, fargate.LoggingConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		settings, err = nil, nil
	}
	if err != nil {
		return nil, err
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
		if err := w.updateStatus(ctx, pod); err != nil {
			return nil, err
		}
		if enabled {
			w.event(ctx, corev1.EventTypeNormal, fargate.LoggingEnabled, 1, text)
		} else {
			w.event(ctx, corev1.EventTypeWarning, fargate.LoggingDisabled, 1, text)
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
func (w *work) launch(ctx context.Context, p record.FargateProfile, pod *corev1.Pod, groups []string,
	config func(address, nodeName, zone string) ([]byte, error)) (launched bool, why string, err error) {
	subnets, why, err := w.chooseSubnet(ctx, p, pod)
	if err != nil || why != "" {
		return false, why, err
	}
	row := &w.row.Value
	for _, s := range subnets {
		row.SubnetID, row.Zone = s.id, s.zone
		if err := w.save(ctx); err != nil {
			return false, "", err
		}
		crashChosen.Here()
		instance, eni, err := w.c.o.Machines.Launch(store.Limited(ctx), Launch{
			Account: row.Account, Region: row.Region, SubnetID: s.id, SecurityGroupIDs: groups,
			Machine: record.FargateMachine{
				Capacity: row.ID, ClusterID: row.ClusterID, Cluster: row.Cluster, RoleARN: p.PodExecutionRoleARN,
				ProfileARN: p.ARN(), CPU: row.CPU, Memory: row.Memory, Storage: row.Storage,
			},
			IPv6: w.isIPv6(), NodeConfig: config,
		})
		switch {
		case errorCode(err) == "InsufficientFreeAddressesInSubnet":
			why = message(err)
			continue
		case errorCode(err) != "":
			return false, message(err), nil
		case err != nil:
			return false, "", fmt.Errorf("launch a machine: %w", err)
		}
		crashLaunched.Here()
		return true, "", w.recordMachine(ctx, instance, eni)
	}
	return false, why, nil
}

// recordMachine records the machine of the pod.
func (w *work) recordMachine(ctx context.Context, instance record.Instance, eni record.NetworkInterface) error {
	row := &w.row.Value
	row.InstanceID, row.NetworkInterfaceID = instance.ID, eni.ID
	row.SubnetID, row.Zone = instance.SubnetID, instance.AvailabilityZone // of an earlier launch with this ID, maybe
	row.LaunchedAt = w.c.now()
	addresses := eni.PrivateIPs
	if w.isIPv6() {
		addresses = eni.IPv6IPs
	}
	if len(addresses) > 0 {
		row.Address = addresses[0]
	}
	if instance.Fargate != nil {
		row.NodeName = instance.Fargate.NodeName
	}
	w.c.byMachine.Store(w.machineKey(), w.key) // before anything is heard of it
	if err := w.record(ctx); err != nil {
		return err
	}
	crashRecorded.Here()
	// An earlier pod may have had the address, and its node be left: the kubelet would take it over with its age.
	if node, ok := w.server.node(row.NodeName); ok && node.created.Before(row.Since.Truncate(time.Second)) {
		return w.deleteNode(ctx, row.NodeName, node.uid)
	}
	return nil
}

// bind binds the pod to its node once that is Ready.
func (w *work) bind(ctx context.Context) (time.Duration, error) {
	row := &w.row.Value
	machine, dead, err := w.machine(ctx)
	if err != nil {
		return 0, err
	}
	if dead {
		return w.fail(ctx, machineProblem(row.Profile, machine.Failure, unavailable))
	}
	node, ok := w.server.node(row.NodeName)
	if !ok || !node.ready {
		if machine.Failing != "" && machine.Failing != row.Failure {
			w.warn(ctx, machineProblem(row.Profile, machine.Failing, ""))
			row.Failure = client.Cut(machine.Failing)
			if err := w.save(ctx); err != nil {
				return 0, err
			}
		}
		rest := row.LaunchedAt.Add(w.c.o.ProvisionTimeout).Sub(w.c.now())
		if rest > 0 {
			return rest, nil // the node and the machine say when something changes
		}
		why := timedOut
		if machine.Failing != "" {
			why += ": " + machine.Failing
		}
		return w.fail(ctx, why)
	}
	err = w.server.scheduler.CoreV1().Pods(row.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: row.Namespace, Name: row.Name, UID: uidOf(w.uid)},
		Target:     corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: row.NodeName},
	}, metav1.CreateOptions{FieldManager: fargate.SchedulerManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return retryInterval, nil // the pod is gone, or has a node: its watch says which
	}
	if err != nil {
		return 0, fmt.Errorf("bind to node %s: %w", row.NodeName, err)
	}
	crashBound.Here()
	w.info.nodeName = row.NodeName
	return w.observe(ctx)
}

// machineProblem returns the text of the event about a machine that has a problem: a role that cannot be assumed in
// EKS's words.
func machineProblem(profile, problem, otherwise string) string {
	switch {
	case strings.Contains(problem, "AssumeRole"), strings.Contains(problem, "assume"):
		return blocked(profile, roleNotTrusting)
	case problem == "":
		return otherwise
	}
	return problem
}

// fail records that no node came of a machine, or none was made, and tells the owner of the pod. It is tried again with
// another machine, later each time.
func (w *work) fail(ctx context.Context, why string) (time.Duration, error) {
	row := &w.row.Value
	why = client.Cut(why)
	if row.Failure != why && row.InstanceID == "" {
		row.Failures = 0 // another reason: it may be over soon
	}
	row.Failures++
	row.Failure, row.RetryAt = why, w.c.now().Add(w.backoff(row.Failures))
	row.Retired = row.InstanceID != ""
	if err := w.record(ctx); err != nil { // how often that is, RetryAt says
		return 0, err
	}
	w.event(ctx, corev1.EventTypeWarning, failedScheduling, row.Failures, why)
	w.c.log.Warn("a Fargate pod has no machine", "cluster", row.Cluster, "pod", row.Namespace+"/"+row.Name, "failures",
		row.Failures, "reason", why)
	if row.Retired {
		crashRetired.Here()
		return w.replace(ctx)
	}
	return max(time.Millisecond, row.RetryAt.Sub(w.c.now())), nil
}

// backoff returns how long to wait after so many failures.
func (w *work) backoff(failures int) time.Duration {
	wait := w.c.o.RetryFirst
	for range failures - 1 {
		if wait *= 2; wait >= w.c.o.RetryMost {
			break
		}
	}
	return min(wait, w.c.o.RetryMost)
}
