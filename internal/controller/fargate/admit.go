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
	misconfigured    = "Misconfigured Fargate Profile: "
	noProfile        = misconfigured + "pod does not have profile label " + fargate.ProfileLabel
	roleUnauthorized = "Pod execution role is not found in auth config or does not have all required permissions for " +
		"launching fargate pods."
	roleNotTrusting = "Failed to assume PodExecutionRole; Please make sure the role exists and trusts the " +
		"eks-fargate-pods.amazonaws.com service principal"
	overQuota   = "Your AWS account has reached the limit on the number of Fargate pods it can run concurrently"
	unavailable = "Fargate capacity is unavailable at this time. Please try again later or in a different " +
		"availability zone."
	timedOut = "Pod provisioning timed out (will retry)"
)

// launchBlockedMessage returns the text of the event of a pod whose profile launches nothing.
func launchBlockedMessage(profile, reason string) string {
	return misconfigured + "fargate profile " + profile + " blocked for new launches due to: " + reason
}

// minRetry and maxRetry bound the time after which a pod is reconciled again that waits for what sends no events here:
// a quarter of the time that it has waited.
const minRetry, maxRetry = 2 * time.Second, time.Minute

// retryDelay returns when to reconcile again a pod that has waited since a time.
func (p *podPass) retryDelay(since time.Time) time.Duration {
	return min(max(p.c.now().Sub(since)/4, minRetry), maxRetry)
}

// allocateCapacity gives a pod capacity, if a profile selects it and Fargate can run it; an event reports what prevents
// it.
func (p *podPass) allocateCapacity(ctx context.Context) (time.Duration, error) {
	pod, err := p.load(ctx)
	if errors.Is(err, errPodGone) {
		return 0, nil
	}
	if errors.Is(err, client.ErrTooLarge) {
		p.warn(ctx, cutMessage(fargate.UnsupportedPrefix+err.Error()))
		return maxRetry, nil
	}
	var tooMuch *outOfBounds
	if errors.As(err, &tooMuch) {
		p.warn(ctx, fargate.UnsupportedPrefix+tooMuch.Error())
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	profile, reason, err := p.findProfile(ctx, pod)
	if err != nil {
		return 0, err
	}
	if reason != "" {
		p.warn(ctx, reason)
	}
	if profile == nil {
		return 0, nil // its profile's change wakes it
	}
	claims, err := p.claimProblems(ctx, pod)
	if errors.Is(err, client.ErrTooLarge) { // no failure, which would hold the room of pods that can run
		text := cutMessage(fargate.UnsupportedPrefix + err.Error())
		p.warn(ctx, text)
		return p.retryDelay(pod.CreationTimestamp.Time), p.setUnschedulable(ctx, pod, fargate.UnsupportedReason, text)
	}
	if err != nil {
		return 0, err
	}
	if reasons := fargate.UnsupportedWith(pod, claims); len(reasons) > 0 {
		text := cutMessage(fargate.UnsupportedPrefix + strings.Join(reasons, ", "))
		p.warn(ctx, text)
		if err := p.setUnschedulable(ctx, pod, fargate.UnsupportedReason, text); err != nil {
			return 0, err
		}
		if len(claims) > 0 && len(fargate.Unsupported(pod)) == 0 { // a claim may still come, or be bound
			return p.retryDelay(pod.CreationTimestamp.Time), nil
		}
		return 0, nil
	}
	size, err := fargate.SizeOf(pod)
	if err != nil {
		p.warn(ctx, err.Error())
		var tooLarge *fargate.SizeError
		if errors.As(err, &tooLarge) {
			return 0, p.setUnschedulable(ctx, pod, tooLarge.Reason, tooLarge.Message)
		}
		return 0, nil
	}
	within, err := p.reserveCapacity(ctx, *profile, size)
	var full *store.FullError
	if errors.As(err, &full) {
		p.warn(ctx, full.Error())
		p.pod.Value = record.FargatePod{}
		return p.retryDelay(pod.CreationTimestamp.Time), nil
	}
	if err != nil {
		return 0, err
	}
	if !within {
		p.warn(ctx, overQuota)
		return p.retryDelay(pod.CreationTimestamp.Time), nil
	}
	crashAdmitted.Here()
	return p.provision(ctx)
}

// findProfile returns the profile that a pod runs with; nil when there is none yet, and what to say about it. Whoever
// makes pods may set the label and the scheduler: the selectors decide.
func (p *podPass) findProfile(
	ctx context.Context, pod *corev1.Pod,
) (found *record.FargateProfile, reason string, err error) {
	name := pod.Labels[fargate.ProfileLabel]
	if name == "" {
		return nil, noProfile, nil
	}
	rows, err := p.c.profiles.List(ctx, store.Prefix(p.cluster.Account, p.cluster.Region, p.cluster.Name))
	if err != nil {
		return nil, "", err
	}
	var all []record.FargateProfile
	for _, row := range rows {
		if profile := row.Value; profile.ClusterID == p.cluster.ID && !profile.Deleting {
			all = append(all, profile)
			if profile.Name == name {
				found = &profile
			}
		}
	}
	name = client.Cut(name)
	if found == nil {
		return nil, launchBlockedMessage(name, "Fargate profile does not exist or is being deleted"), nil
	}
	if !fargate.WithinBounds(pod.Labels) || fargate.Select(all, pod.Namespace, pod.Labels, pod.Annotations) != name {
		return nil, launchBlockedMessage(name, "Pod does not match the selectors of the profile"), nil
	}
	state, err := p.c.states.Get(ctx, found.Key())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	case state.Value.ProfileID != found.ID:
		return nil, "", nil
	case state.Value.Failed && len(state.Value.Issues) > 0:
		return nil, launchBlockedMessage(name, *state.Value.Issues[0].Message), nil
	case !state.Value.Created:
		return nil, "", nil
	}
	return found, "", nil
}

// claimProblems returns what is wrong with the claims of a pod, by name.
func (p *podPass) claimProblems(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	ctx = withinClaims(ctx)
	problems := map[string]string{}
	for _, name := range fargate.VolumeClaims(pod) {
		claim, volume, err := p.getClaim(ctx, pod.Namespace, name)
		if err != nil {
			return nil, err
		}
		if problem := fargate.ClaimProblem(name, claim, volume); problem != "" {
			problems[name] = problem
		}
	}
	return problems, nil
}

// setUnschedulable sets the condition PodScheduled of a pod that is not scheduled to False.
func (p *podPass) setUnschedulable(ctx context.Context, pod *corev1.Pod, reason, text string) error {
	condition := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason,
		Message: text, LastTransitionTime: metav1.NewTime(p.c.now())}
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
	err := p.updateStatus(ctx, pod)
	if client.IsRefusal(err) || apierrors.IsRequestEntityTooLargeError(err) { // an event says the same
		p.c.log.Warn("cannot set condition of Fargate pod", "cluster", p.cluster.Name, "pod", pod.Namespace+"/"+pod.Name,
			"error", client.Cut(err.Error()))
		return nil
	}
	return err
}

func (p *podPass) updateStatus(ctx context.Context, pod *corev1.Pod) error {
	_, err := p.server.scheduler.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod,
		metav1.UpdateOptions{FieldManager: fargate.SchedulerManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update status of pod: %w", err)
	}
	return nil
}

// reserveCapacity records the capacity of a pod, and reports whether the account's quota has room for it. Pods of an
// account take their turns, so that no two of them take the same room.
func (p *podPass) reserveCapacity(ctx context.Context, profile record.FargateProfile, size fargate.Size) (bool, error) {
	p.c.placementLocks.Lock(profile.Account)
	defer func() { _ = p.c.placementLocks.Unlock(profile.Account) }() // it is held
	rows, err := p.c.pods.List(ctx, store.Prefix(profile.Account, profile.Region))
	if err != nil {
		return false, err
	}
	used := size.CPU
	for _, row := range rows {
		used += row.Value.CPU
	}
	if used > p.c.o.VCPUQuota*1000 {
		return false, nil
	}
	id, err := newCapacity()
	if err != nil {
		return false, err
	}
	now := p.c.now()
	p.pod.Value = record.FargatePod{
		Account: profile.Account, Region: profile.Region, Cluster: profile.Cluster, ClusterID: profile.ClusterID,
		Namespace: p.info.namespace, Name: p.info.name, UID: p.uid, ID: id, Profile: profile.Name, ProfileID: profile.ID,
		CPU: size.CPU, Memory: size.Memory, Storage: size.Storage, CreatedAt: now, Since: now,
	}
	return true, p.saveCharged(ctx)
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
