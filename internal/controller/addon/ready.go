package addon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// insufficient is EKS's message for an add-on that lacks pods; the reason follows it.
	insufficient = "The add-on is unhealthy because it doesn't have the desired number of replicas."

	// plainAfter is the time for which a pod has to be failing before that is reported: most failures pass.
	plainAfter = 10 * time.Second
	// unreadyMost is the time for which pods may be missing without a plain reason once the add-on was ready: a rollout
	// that the user starts takes its time.
	unreadyMost = time.Minute
	// What is unready is looked at again though nothing is heard, since pods are not watched: at first soon, then as it
	// drags on.
	unreadyFirst, unreadyLast = time.Second, time.Minute
	// eventsLast is the maximum age of an event that is taken for a current problem: its controller repeats it, at ever
	// longer intervals.
	eventsLast = 20 * time.Minute
)

// shortfall is a workload that lacks pods.
type shortfall struct {
	object record.AddonObject
	text   string // why, in plain words; empty as long as that isn't plain
	// homeless reports that it is only for want of nodes that have room: it is not the add-on's fault, nor that of its
	// version.
	homeless bool
	// image reports that it is for want of an image.
	image bool
}

// waitForPods waits for the pods, and ends a creation or an update once they are there, or cannot be for reasons that
// it is not to blame for.
//
// An update whose pods do not come up within the time that they have is failed, and what was before it is applied
// again: that is what DescribeAddon then shows. (EKS leaves the pods of the failed version in place.)
func (a *addon) waitForPods(ctx context.Context) error {
	changing := a.changing()
	short, err := a.shortfalls(ctx, changing)
	if err != nil {
		return err
	}
	plain, homeless := len(short) > 0, true
	for _, s := range short {
		plain, homeless = plain && s.text != "", homeless && s.homeless
		switch {
		case s.text != "":
			text := insufficient + " " + strings.TrimSuffix(s.text, ".") + "."
			if s.image {
				if err := a.retryImages(); err != nil {
					return err
				}
				text += a.e.images.missingReason(a.row.Key())
			}
			a.issues = appendIssue(a.issues, issueOf(ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, text,
				s.object))
		case !changing && a.e.now().Sub(a.unready) >= unreadyMost, changing && a.overdue(a.changeStart()):
			a.issues = appendIssue(a.issues, issueOf(ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, insufficient,
				s.object))
		}
	}
	if !a.updating() && a.last.Status == ekstypes.UpdateStatusFailed && a.state.Change == a.row.Change {
		for _, i := range addonIssues(a.last.Errors) {
			a.issues = appendIssue(a.issues, i)
		}
	}
	switch {
	case !changing:
		return nil
	case len(short) > 0 && a.updating() && !(plain && homeless):
		if a.overdue(a.last.CreatedAt) {
			a.state.Change, a.state.Issues = a.row.Change, a.issues
			return a.finishUpdate(ctx, ekstypes.UpdateStatusFailed, details(a.issues)...)
		}
		return nil
	case len(short) > 0 && !plain && !a.overdue(a.changeStart()):
		return nil
	}
	// A creation comes to its end even without pods as soon as it is plain why there are none: the add-on is then
	// DEGRADED until they come.
	a.state.Created, a.state.Failed, a.state.Change, a.state.Issues = true, false, a.row.Change, a.issues
	return a.finishUpdate(ctx, ekstypes.UpdateStatusSuccessful)
}

// retryImages asks for the images of the add-on, of which some could not be had.
func (a *addon) retryImages() error {
	rendered, err := a.e.render(a.cluster, a.plane, a.row.Name, a.row.Now(a.last))
	if err == nil {
		a.e.images.requestImages(a.row.Key(), rendered.Images)
	}
	return err
}

// changeStart returns the time when the current change began.
func (a *addon) changeStart() time.Time {
	switch {
	case a.updating():
		return a.last.CreatedAt
	case a.row.ModifiedAt.IsZero():
		return a.row.CreatedAt
	}
	return a.row.ModifiedAt
}

// shortfalls returns the workloads that lack pods: of the newest template while the add-on is changing, of any
// otherwise.
func (a *addon) shortfalls(ctx context.Context, changing bool) ([]shortfall, error) {
	var all []shortfall
	for _, o := range a.state.Objects {
		if !strings.HasPrefix(o.APIVersion, "apps/") {
			continue
		}
		if !changing {
			is, there, known, err := a.server.findObject(o)
			if err != nil {
				return nil, problemOf(o, err)
			}
			if !known || there && (is.workload == nil || is.workload.isServing()) {
				continue
			}
		}
		live, err := a.server.getObject(ctx, o)
		if apierrors.IsNotFound(err) {
			continue // it comes back
		}
		if err != nil {
			return nil, problemOf(o, err)
		}
		w := workloadOf(live)
		if w == nil || changing && w.isRolledOut() || !changing && w.isServing() {
			continue
		}
		if a.unready.IsZero() {
			a.unready = a.e.now()
		}
		s := shortfall{object: o}
		if err := a.explainShortfall(ctx, &s, w); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		a.unready = time.Time{}
	} else {
		a.requeueAfter(min(max(a.e.now().Sub(a.unready)/4, unreadyFirst), unreadyLast))
	}
	return all, nil
}

// explainShortfall sets the reason why a workload lacks pods, once that is plain.
func (a *addon) explainShortfall(ctx context.Context, s *shortfall, w *workload) error {
	have := fmt.Sprintf("%s has %d of %d available", resourceID(s.object), w.Available, w.Wanted)
	if w.Failure != "" {
		s.text = oneLine(have + ": its pods cannot be created: " + w.Failure)
		return nil
	}
	if w.selector == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	pods, err := a.server.Core.Pods(s.object.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: w.selector.String(), Limit: 100,
	})
	if err != nil {
		return problemOf(s.object, err)
	}
	var worst ailment
	for i := range pods.Items {
		if ill := podAilment(&pods.Items[i]); ill.rank > worst.rank && pods.Items[i].DeletionTimestamp == nil {
			worst = ill
		}
	}
	if worst.rank == 0 && int64(len(pods.Items)) < w.Wanted {
		if worst, err = a.findCreateFailure(ctx, s.object); err != nil {
			return err
		}
	}
	if worst.rank == 0 {
		return nil
	}
	s.homeless, s.image = worst.rank == homeless, worst.rank == imageless
	if left := plainAfter - a.e.now().Sub(worst.since); left > 0 && !worst.plain {
		a.requeueAfter(left)
		return nil
	}
	s.text = oneLine(have + ": " + worst.text) // names and images are the API server's, too
	return nil
}

// findCreateFailure returns why pods of a workload cannot be created, from the events about it: the status of a
// DaemonSet does not say.
func (a *addon) findCreateFailure(ctx context.Context, o record.AddonObject) (ailment, error) {
	events, err := a.server.Core.Events(o.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=" + o.Kind + ",involvedObject.name=" + o.Name + ",reason=FailedCreate",
		Limit:         100,
	})
	if err != nil {
		return ailment{}, problemOf(o, err)
	}
	var last corev1.Event
	for _, e := range events.Items {
		if !e.LastTimestamp.Before(&last.LastTimestamp) {
			last = e
		}
	}
	if last.Message == "" || a.e.now().Sub(last.LastTimestamp.Time) > eventsLast {
		return ailment{}, nil
	}
	return ailment{failing, "its pods cannot be created: " +
		oneLine(strings.TrimPrefix(last.Message, "Error creating: ")), last.FirstTimestamp.Time, true}, nil
}

// ailment is a problem of a pod.
type ailment struct {
	rank  int // the higher, the more it says
	text  string
	since time.Time
	plain bool // at once
}

// The ranks of ailments.
const (
	unstarted = iota + 1
	homeless
	failing
	imageless
)

// podAilment returns the problem of a pod; its rank is 0 when it has none that can be named.
func podAilment(p *corev1.Pod) ailment {
	since := p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			return ailment{}
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			return ailment{homeless, fmt.Sprintf("pod %s cannot be scheduled: %s", p.Name, oneLine(c.Message)),
				c.LastTransitionTime.Time, false}
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue:
			since = c.LastTransitionTime.Time
		}
	}
	worst := ailment{}
	containers := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	for _, c := range containers {
		var ill ailment
		switch {
		case c.State.Waiting != nil:
			ill = waitingAilment(p, c, since)
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			ill = terminatedAilment(p, c, c.State.Terminated, since)
		case c.State.Running != nil && !c.Ready && slices.ContainsFunc(p.Status.ContainerStatuses,
			func(m corev1.ContainerStatus) bool { return m.Name == c.Name }):
			ill = ailment{unstarted, fmt.Sprintf("container %s of pod %s runs, but is not ready", c.Name, p.Name),
				c.State.Running.StartedAt.Add(unreadyMost - plainAfter), false}
		}
		if ill.rank > worst.rank {
			worst = ill
		}
	}
	return worst
}

func waitingAilment(p *corev1.Pod, c corev1.ContainerStatus, since time.Time) ailment {
	reason := c.State.Waiting.Reason
	switch reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable",
		"ImageInspectError":
		return ailment{imageless, fmt.Sprintf("pod %s cannot pull image %s: %s", p.Name, c.Image,
			cmp.Or(oneLine(c.State.Waiting.Message), reason)), since, false}
	case "CrashLoopBackOff":
		if last := c.LastTerminationState.Terminated; last != nil {
			return terminatedAilment(p, c, last, since)
		}
		return ailment{failing, fmt.Sprintf("container %s of pod %s ends again and again", c.Name, p.Name), since,
			false}
	case "", "ContainerCreating", "PodInitializing":
		return ailment{}
	}
	return ailment{unstarted, fmt.Sprintf("container %s of pod %s does not start: %s", c.Name, p.Name,
		cmp.Or(oneLine(c.State.Waiting.Message), reason)), since, false}
}

func terminatedAilment(
	p *corev1.Pod, c corev1.ContainerStatus, t *corev1.ContainerStateTerminated, since time.Time,
) ailment {
	why := fmt.Sprintf("container %s of pod %s ended with exit code %d", c.Name, p.Name, t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" {
		why += " (" + t.Reason + ")"
	}
	if c.RestartCount > 0 {
		why += fmt.Sprintf(" and was started again %d times", c.RestartCount)
	}
	if t.Message != "" {
		why += ": " + oneLine(t.Message)
	}
	return ailment{failing, why, since, false}
}
