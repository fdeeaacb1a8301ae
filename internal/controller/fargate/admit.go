package fargate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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

// The texts of EKS's events.
const (
	misconfigured = "Misconfigured Fargate Profile: "
	noProfile     = misconfigured + "pod does not have profile label " + fargate.ProfileLabel
	roleNotLetIn  = "Pod execution role is not found in auth config or does not have all required permissions for " +
		"launching fargate pods."
	roleNotTrusting = "Failed to assume PodExecutionRole; Please make sure the role exists and trusts the " +
		"eks-fargate-pods.amazonaws.com service principal"
	overQuota   = "Your AWS account has reached the limit on the number of Fargate pods it can run concurrently"
	unavailable = "Fargate capacity is unavailable at this time. Please try again later or in a different " +
		"availability zone."
	timedOut = "Pod provisioning timed out (will retry)"
)

// blocked returns the text of the event of a pod whose profile launches nothing.
func blocked(profile, why string) string {
	return misconfigured + "fargate profile " + profile + " blocked for new launches due to: " + why
}

// retryLeast and retryMost bound the time after which a pod is looked at again that waits for what sends no events
// here: a quarter of the time that it has waited.
const retryLeast, retryMost = 2 * time.Second, time.Minute

// again returns when to look again at a pod that has waited since a time.
func (w *work) again(since time.Time) time.Duration {
	return min(max(w.c.now().Sub(since)/4, retryLeast), retryMost)
}

// admit gives a pod capacity, if a profile selects it and Fargate can run it; an event says what is in the way.
func (w *work) admit(ctx context.Context) (time.Duration, error) {
	pod, err := w.load(ctx)
	if errors.Is(err, errPodGone) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	p, why, err := w.findProfile(ctx, pod)
	if err != nil {
		return 0, err
	}
	if why != "" {
		w.warn(ctx, why)
	}
	if p == nil {
		return 0, nil // its profile's change wakes it
	}
	claims, err := w.claimProblems(ctx, pod)
	if err != nil {
		return 0, err
	}
	if reasons := fargate.UnsupportedWith(pod, claims); len(reasons) > 0 {
		text := fargate.UnsupportedPrefix + strings.Join(reasons, ", ")
		w.warn(ctx, text)
		if err := w.refuse(ctx, pod, fargate.UnsupportedReason, text); err != nil {
			return 0, err
		}
		if len(claims) > 0 && len(fargate.Unsupported(pod)) == 0 { // a claim may still come, or be bound
			return w.again(pod.CreationTimestamp.Time), nil
		}
		return 0, nil
	}
	size, err := fargate.SizeOf(pod)
	if err != nil {
		w.warn(ctx, err.Error())
		var tooLarge *fargate.SizeError
		if errors.As(err, &tooLarge) {
			return 0, w.refuse(ctx, pod, tooLarge.Reason, tooLarge.Message)
		}
		return 0, nil
	}
	within, err := w.reserve(ctx, *p, size)
	var full *store.FullError
	if errors.As(err, &full) {
		w.warn(ctx, full.Error())
		w.row.Value = record.FargatePod{}
		return w.again(pod.CreationTimestamp.Time), nil
	}
	if err != nil {
		return 0, err
	}
	if !within {
		w.warn(ctx, overQuota)
		return w.again(pod.CreationTimestamp.Time), nil
	}
	crashAdmitted.Here()
	return w.provision(ctx)
}

// findProfile returns the profile that a pod runs with; nil when there is none yet, and what to say about it. Whoever
// makes pods may set the label and the scheduler: the selectors decide.
func (w *work) findProfile(ctx context.Context, pod *corev1.Pod) (found *record.FargateProfile, why string, err error) {
	name := pod.Labels[fargate.ProfileLabel]
	if name == "" {
		return nil, noProfile, nil
	}
	rows, err := w.c.profiles.List(ctx, store.Prefix(w.cluster.Account, w.cluster.Region, w.cluster.Name))
	if err != nil {
		return nil, "", err
	}
	var all []record.FargateProfile
	for _, row := range rows {
		if p := row.Value; p.ClusterID == w.cluster.ID && !p.Deleting {
			all = append(all, p)
			if p.Name == name {
				found = &p
			}
		}
	}
	name = client.Cut(name)
	if found == nil {
		return nil, blocked(name, "Fargate profile does not exist or is being deleted"), nil
	}
	if !fargate.WithinBounds(pod.Labels) || fargate.Select(all, pod.Namespace, pod.Labels, pod.Annotations) != name {
		return nil, blocked(name, "Pod does not match the selectors of the profile"), nil
	}
	state, err := w.c.states.Get(ctx, found.Key())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	case state.Value.ProfileID != found.ID:
		return nil, "", nil
	case state.Value.Failed && len(state.Value.Issues) > 0:
		return nil, blocked(name, *state.Value.Issues[0].Message), nil
	case !state.Value.Created:
		return nil, "", nil
	}
	return found, "", nil
}

// claimProblems returns what is wrong with the claims of a pod, by name.
func (w *work) claimProblems(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	problems := map[string]string{}
	core := w.server.scheduler.CoreV1()
	for _, name := range fargate.VolumeClaims(pod) {
		claim, err := core.PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			claim, err = nil, nil
		}
		var volume *corev1.PersistentVolume
		if err == nil && claim != nil && claim.Spec.VolumeName != "" {
			volume, err = core.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				volume, err = nil, nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read persistent volume claim %s: %w", name, err)
		}
		if problem := fargate.ClaimProblem(name, claim, volume); problem != "" {
			problems[name] = problem
		}
	}
	return problems, nil
}

// refuse writes the condition PodScheduled of a pod that is not scheduled.
func (w *work) refuse(ctx context.Context, pod *corev1.Pod, reason, text string) error {
	condition := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason,
		Message: text, LastTransitionTime: metav1.NewTime(w.c.now())}
	at := -1
	for i, c := range pod.Status.Conditions {
		if c.Type == condition.Type {
			at = i
		}
	}
	switch {
	case at < 0:
		pod.Status.Conditions = append(pod.Status.Conditions, condition)
	case pod.Status.Conditions[at].Reason == reason && pod.Status.Conditions[at].Message == text:
		return nil
	default:
		pod.Status.Conditions[at] = condition
	}
	return w.updateStatus(ctx, pod)
}

func (w *work) updateStatus(ctx context.Context, pod *corev1.Pod) error {
	_, err := w.server.scheduler.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod,
		metav1.UpdateOptions{FieldManager: fargate.SchedulerManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// reserve records the capacity of a pod, and reports whether the account's quota has room for it. Pods of an account
// take their turns, so that no two of them take the same room.
func (w *work) reserve(ctx context.Context, p record.FargateProfile, size fargate.Size) (bool, error) {
	w.c.choosing.Lock(p.Account)
	defer func() { _ = w.c.choosing.Unlock(p.Account) }() // it is held
	rows, err := w.c.pods.List(ctx, store.Prefix(p.Account, p.Region))
	if err != nil {
		return false, err
	}
	used := size.CPU
	for _, row := range rows {
		used += row.Value.CPU
	}
	if used > w.c.o.VCPUs*1000 {
		return false, nil
	}
	id, err := newCapacity()
	if err != nil {
		return false, err
	}
	now := w.c.now()
	w.row.Value = record.FargatePod{
		Account: p.Account, Region: p.Region, Cluster: p.Cluster, ClusterID: p.ClusterID,
		Namespace: w.info.namespace, Name: w.info.name, UID: w.uid, ID: id, Profile: p.Name, ProfileID: p.ID,
		CPU: size.CPU, Memory: size.Memory, Storage: size.Storage, CreatedAt: now, Since: now,
	}
	return true, w.save(ctx)
}

// newCapacity returns the ID of a capacity.
func newCapacity() (string, error) {
	var random [21]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	text := hex.EncodeToString(random[:])
	return text[:10] + "-" + text[10:], nil
}
