package simulated

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/kube/client"
)

//go:embed stages.yaml
var stages string

// podStages returns the stages of a pod's lifecycle.
var podStages = sync.OnceValue(func() lifecycle.Lifecycle {
	var all []*internalversion.Stage
	for document := range strings.SplitSeq(stages, "\n---\n") {
		var public v1alpha1.Stage
		if err := yaml.UnmarshalStrict([]byte(document), &public); err != nil {
			panic(fmt.Sprintf("simulated: built-in stage: %v\n%s", err, document))
		}
		stage, err := internalversion.ConvertToInternalStage(&public)
		if err != nil {
			panic(fmt.Sprintf("simulated: built-in stage %s: %v", public.Name, err))
		}
		all = append(all, stage)
	}
	life, err := lifecycle.NewLifecycle(all)
	if err != nil {
		panic(fmt.Sprintf("simulated: built-in stages: %v", err))
	}
	// Stages compile their expressions at the first use, which several must not do at once.
	if _, err := life.Match(context.Background(), &lifecycle.Event{Data: &corev1.Pod{}}); err != nil {
		panic(fmt.Sprintf("simulated: built-in stages: %v", err))
	}
	return life
})

// pod is the state of a pod in memory.
type pod struct {
	node    string
	uid     types.UID
	address []string    // it has, or is to have
	due     *corev1.Pod // what is to be done about, as trimPod leaves it; nil when nothing is
	cost    int         // of due, in bytes
	payer   string      // the machine in whose budget that is
	at      time.Time   // when: the zero time is at once, or not known yet
	stage   *lifecycle.Stage
}

// What is kept in memory of the pods that something is to be done about, in bytes: of one machine, which has 737 pods
// at most, and of all that are not this daemon's, or not yet.
const (
	maxDue       = 16 << 20
	maxDueOthers = 256 << 20
	// maxAddress is the longest address of a pod, and maxAddresses how many it has.
	maxAddress, maxAddresses = 45, 2
)

// trimPod returns what stages read of a pod, and about how many bytes of memory that takes.
func trimPod(p *corev1.Pod) (*corev1.Pod, int) {
	due := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID,
			DeletionTimestamp: p.DeletionTimestamp, Finalizers: p.Finalizers},
		Spec: corev1.PodSpec{NodeName: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork},
	}
	cost := sizeOf[corev1.Pod]()
	for _, f := range p.Finalizers {
		cost += sizeOf[string]() + len(f)
	}
	if p.DeletionTimestamp != nil {
		return due, cost
	}
	if isJobPod(p) {
		due.OwnerReferences = []metav1.OwnerReference{{Kind: "Job"}}
	}
	due.Status = corev1.PodStatus{Phase: p.Status.Phase, StartTime: p.Status.StartTime}
	if unready(p) {
		due.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	}
	containers := func(all []corev1.Container) (trimmed []corev1.Container) {
		for _, c := range all {
			trimmed = append(trimmed, corev1.Container{Name: c.Name, Image: c.Image, RestartPolicy: c.RestartPolicy})
			cost += sizeOf[corev1.Container]() + len(c.Name) + len(c.Image)
		}
		return trimmed
	}
	due.Spec.Containers = containers(p.Spec.Containers)
	due.Spec.InitContainers = containers(p.Spec.InitContainers)
	due.Spec.ReadinessGates = p.Spec.ReadinessGates
	for _, g := range p.Spec.ReadinessGates {
		cost += sizeOf[corev1.PodReadinessGate]() + len(g.ConditionType)
	}
	return due, cost + len(p.Status.Phase)
}

func sizeOf[T any]() int { return int(reflect.TypeFor[T]().Size()) }

// setDue takes note of what is to be done about a pod; nil is nothing. It is false where that is more than is kept of
// the pods of its machine. f.mu is held.
func (f *fleet) setDue(known *pod, p *corev1.Pod) bool {
	f.due[known.payer] -= known.cost
	if f.due[known.payer] <= 0 {
		delete(f.due, known.payer)
	}
	known.due, known.stage, known.at, known.cost, known.payer = nil, nil, time.Time{}, 0, ""
	if p == nil {
		return true
	}
	due, cost := trimPod(p)
	payer, most := known.node, maxDue
	if f.kubelets[known.node] == nil {
		payer, most = "", maxDueOthers
	}
	if f.due[payer]+cost > most {
		return false
	}
	f.due[payer] += cost
	known.due, known.cost, known.payer = due, cost, payer
	return true
}

// warnFull logs, once, that there are pods that are not simulated. f.mu is held.
func (f *fleet) warnFull(name podName) {
	if !f.full {
		f.full = true
		f.c.log.Warn("the pods of a cluster are more than its simulated machines can have; some do not run", "cluster",
			f.cluster.Name, "pod", name.namespace+"/"+name.name)
	}
}

// observePod takes note of how a pod is now.
func (f *fleet) observePod(p *corev1.Pod) {
	name := podName{p.Namespace, p.Name}
	f.mu.Lock()
	known := f.pods[name]
	if known != nil && known.uid != p.UID {
		f.release(known)
		f.setDue(known, nil)
		delete(f.pods, name)
		known = nil
	}
	if known == nil {
		if len(f.pods) >= client.MaxObjects || len(p.Spec.NodeName) > validation.DNS1123SubdomainMaxLength {
			f.warnFull(name)
			f.mu.Unlock()
			return
		}
		known = &pod{node: p.Spec.NodeName, uid: p.UID}
		f.pods[name] = known
	}
	if len(known.address) == 0 && !p.Spec.HostNetwork {
		for _, ip := range p.Status.PodIPs { // given by a daemon before this one
			if len(known.address) < maxAddresses && len(ip.IP) <= maxAddress {
				known.address = append(known.address, ip.IP)
			}
		}
	}
	finished := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if finished {
		f.release(known)
	}
	// Most of what a watch tells is that all is well.
	if p.DeletionTimestamp == nil && (finished || p.Status.Phase == corev1.PodRunning && !isJobPod(p) && !unready(p)) {
		f.setDue(known, nil)
		f.mu.Unlock()
		return
	}
	if !f.setDue(known, p) {
		f.warnFull(name)
	}
	mine := known.due != nil && f.kubelets[known.node] != nil
	f.mu.Unlock()
	if mine {
		f.work.Add(name)
	}
}

func isJobPod(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Job" })
}

func unready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse
	})
}

// forgetPod takes note that a pod is gone.
func (f *fleet) forgetPod(name podName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.pods[name]; known != nil {
		f.release(known)
		f.setDue(known, nil)
		delete(f.pods, name)
	}
}

// release gives a pod's addresses back to its node. f.mu is held.
func (f *fleet) release(p *pod) {
	if k := f.kubelets[p.node]; k != nil {
		k.pool.releaseAddress(p.uid)
	}
	p.address = nil
}

// player plays stages.
type player struct {
	renderer gotpl.Renderer
}

func newPlayer(f *fleet) *player {
	return &player{renderer: gotpl.NewRenderer(gotpl.FuncMap{
		"NodeIPsWith": f.nodeIPs,
		"PodIPsWith":  f.podAddresses,
		"ContainerID": containerID,
		"ConditionsOfRunning": func() []string {
			return []string{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"}
		},
		"ConditionsOfCompleted": func() []string {
			return []string{"PodReadyToStartContainers", "Ready",
				"ContainersReady"}
		},
	})}
}

// containerID returns a made-up container ID, which is the same each time.
func containerID(uid, container string) string {
	sum := sha256.Sum256([]byte(uid + "/" + container))
	return "simulated://" + hex.EncodeToString(sum[:])
}

func (f *fleet) nodeIPs(node string) []string {
	if k := f.kubelet(node); k != nil {
		return []string{k.ip.String()}
	}
	return nil
}

// podAddresses returns the addresses that stepPod has allocated for the pod.
func (f *fleet) podAddresses(node string, hostNetwork bool, _ any, name, namespace string) []string {
	if hostNetwork {
		return f.nodeIPs(node)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.pods[podName{namespace, name}]; p != nil {
		return p.address
	}
	return nil
}

// stepPod takes the steps that are due for a pod, and returns the time until the next one.
func (f *fleet) stepPod(ctx context.Context, name podName) (time.Duration, error) {
	f.mu.Lock()
	if !f.listed { // an address that seems free may be another pod's
		f.mu.Unlock()
		return againFirst, nil
	}
	known := f.pods[name]
	var due *corev1.Pod
	var k *kubelet
	if known != nil {
		due, k = known.due, f.kubelets[known.node]
	}
	f.mu.Unlock()
	if due == nil || k == nil {
		return 0, nil
	}
	stage, after, err := f.play.matchStage(ctx, due)
	if err != nil || stage == nil {
		return 0, err
	}
	if after > 0 {
		f.mu.Lock()
		wait := time.Duration(0)
		switch {
		case known.due != due:
		case known.stage != stage:
			known.stage, known.at, wait = stage, time.Now().Add(after), after
		default:
			wait = time.Until(known.at)
		}
		f.mu.Unlock()
		if wait > 0 {
			return wait, nil
		}
	}
	if due.DeletionTimestamp == nil && !due.Spec.HostNetwork {
		if err := f.address(ctx, k, name, known); err != nil {
			if ctx.Err() == nil {
				f.complain(ctx, k, due, err)
			}
			return 0, err
		}
	}
	path := "/api/v1/namespaces/" + url.PathEscape(due.Namespace) + "/pods/" + url.PathEscape(due.Name)
	_, err = stage.DoSteps(0, due.Finalizers, due, f.play.renderer,
		func(e *internalversion.StageEvent) error {
			return f.recordEvent(ctx, k, due, e.Type, e.Reason, e.Message)
		},
		func() error {
			body, err := json.Marshal(metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1",
				Kind: "DeleteOptions"}, GracePeriodSeconds: new(int64(0)),
				Preconditions: &metav1.Preconditions{UID: &due.UID}})
			if err != nil {
				return err
			}
			return k.sendRequest(ctx, http.MethodDelete, path, jsonType, body, nil)
		},
		func(p *lifecycle.Patch) error {
			at := path
			if p.Subresource != "" {
				at += "/" + p.Subresource
			}
			return k.sendRequest(ctx, http.MethodPatch, at, string(p.Type), p.Data, nil)
		},
		func(*lifecycle.Apply) error { return errors.New("pods create nothing") },
	)
	if isStatus(err, http.StatusNotFound) || isStatus(err, http.StatusConflict) {
		err = nil // it is gone, or another by now: the watch says so
	}
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	if known.due == due {
		f.setDue(known, nil)
	}
	f.mu.Unlock()
	return 0, nil
}

// address allocates the pod's addresses.
func (f *fleet) address(ctx context.Context, k *kubelet, name podName, known *pod) error {
	f.mu.Lock()
	have := known.address
	f.mu.Unlock()
	if len(have) > 0 {
		k.pool.reserve(known.uid, have)
		return nil
	}
	got := k.ip.String() // a Fargate pod's, too
	if k.instance.Fargate == nil {
		var err error
		if got, err = k.pool.allocate(ctx, known.uid); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pods[name] != known {
		k.pool.releaseAddress(known.uid)
		return nil
	}
	known.address = []string{got}
	return nil
}

// matchStage returns the next stage of a pod, and the delay until then.
func (p *player) matchStage(ctx context.Context, due *corev1.Pod) (*lifecycle.Stage, time.Duration, error) {
	event := &lifecycle.Event{Labels: due.Labels, Annotations: due.Annotations, Data: due}
	stage, err := podStages().Match(ctx, event)
	if err != nil || stage == nil {
		return nil, 0, err
	}
	after, _, err := stage.Delay(ctx, event, time.Now())
	return stage, after, err
}

// complain reports to the user of the pod why it does not start, in the event that a kubelet would send.
func (f *fleet) complain(ctx context.Context, k *kubelet, p *corev1.Pod, err error) {
	message := shorten(fmt.Sprintf(
		"Failed to create pod sandbox: plugin type=\"aws-cni\" name=\"aws-cni\" failed (add): add cmd: failed to "+
			"assign an IP address to container: %v", err))
	if err := f.recordEvent(ctx, k, p, corev1.EventTypeWarning, "FailedCreatePodSandBox", message); err != nil &&
		ctx.Err() == nil {
		f.c.log.Warn("cannot tell why a pod does not start", "cluster", f.cluster.Name, "pod", p.Namespace+"/"+p.Name,
			"error", err, "reason", message)
	}
}

// recordEvent records one about a pod, as the node. The same again counts up.
func (f *fleet) recordEvent(ctx context.Context, k *kubelet, p *corev1.Pod, kind, reason, message string) error {
	sum := sha256.Sum256([]byte(string(p.UID) + reason + message))
	now := metav1.Now()
	e := corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + "." + hex.EncodeToString(sum[:8])},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name,
			UID: p.UID},
		Reason: reason, Message: message, Type: kind, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "kubelet", Host: k.name}, ReportingController: "kubelet",
		ReportingInstance: k.name,
	}
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	path := "/api/v1/namespaces/" + url.PathEscape(p.Namespace) + "/events"
	err = k.sendRequest(ctx, http.MethodPost, path, jsonType, body, nil)
	if !isStatus(err, http.StatusConflict) {
		return err
	}
	return k.sendRequest(ctx, http.MethodPatch, path+"/"+e.Name, mergeType, fmt.Appendf(nil, `{"lastTimestamp":%q}`,
		now.UTC().Format(time.RFC3339)), nil)
}
