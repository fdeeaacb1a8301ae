package fargate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/kube/eviction"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// minEvictRetry and maxEvictRetry bound the time after which an eviction that was refused is tried again: an eighth of
// the time since the first.
const minEvictRetry, maxEvictRetry = time.Second, time.Minute

// Patch marks the Fargate pods of a cluster for eviction, zone by zone; pods that are not evicted by the deadline are
// deleted. It returns their number and does not wait. profile restricts it to one profile, unless it is empty.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-patching.html
func (c *Controller) Patch(
	ctx context.Context, cluster record.Cluster, profile string, deadline time.Duration,
) (int, error) {
	rows, err := c.pods.List(ctx, store.Prefix(cluster.Account, cluster.Region, cluster.Name))
	if err != nil {
		return 0, err
	}
	now, n := c.now(), 0
	for _, row := range rows {
		if row.Value.ClusterID != cluster.ID || profile != "" && row.Value.Profile != profile {
			continue
		}
		marked := false
		_, err := c.pods.Modify(ctx, row.Key, func(p *record.FargatePod) error {
			if marked = p.Bound && !p.Ending; marked {
				p.Patch = &record.FargatePatch{Since: now, Deadline: now.Add(deadline)}
			}
			return nil
		})
		if store.IgnoreNotFound(err) != nil {
			return n, err
		}
		if err == nil && marked {
			n++
		}
	}
	return n, nil
}

// termination is the detail of the event that EKS sends to EventBridge when it cannot evict a pod.
type termination struct {
	ClusterName              string `json:"clusterName"`
	FargateProfileName       string `json:"fargateProfileName"`
	PodName                  string `json:"podName"`
	PodNamespace             string `json:"podNamespace"`
	EvictErrorMessage        string `json:"evictErrorMessage"`
	ScheduledTerminationTime string `json:"scheduledTerminationTime"`
}

// The type of this event, and the reason under which it is told to the pod's owner: there is no EventBridge here.
const (
	terminationType   = "EKS Fargate Pod Scheduled Termination"
	terminationReason = "ScheduledTermination"
)

// patch evicts a pod whose machine is to be patched.
func (p *podPass) patch(ctx context.Context) (time.Duration, error) {
	row := &p.pod.Value
	now := p.c.now()
	due := !now.Before(row.Patch.Deadline)
	if !due && row.Patch.Refused == "" {
		waits, err := p.isEarlierZonePatched(ctx)
		if err != nil || waits {
			return retryInterval, err
		}
	}
	pod := eviction.Pod{Namespace: row.Namespace, Name: row.Name, UID: p.uid}
	gone, refused, err := eviction.Evict(ctx, p.server.manager, pod, due)
	if err == nil && refused != "" && due { // an API server, or a webhook, that is too busy to evict it
		gone, refused, err = eviction.Delete(ctx, p.server.manager, pod)
	}
	if err != nil || gone || refused == "" {
		return issueRetryInterval, err // its watch says so
	}
	if row.Patch.Refused == "" {
		row.Patch.Refused = client.Cut(refused)
		if err := p.announceTermination(ctx); err != nil { // before it is recorded: it is announced once
			return 0, err
		}
		crashAnnounced.Here()
		if err := p.saveCharged(ctx); err != nil {
			return 0, err
		}
		crashPatch.Here()
	}
	wait := min(max(now.Sub(row.Patch.Since)/8, minEvictRetry), maxEvictRetry)
	if !due {
		wait = max(time.Millisecond, min(wait, row.Patch.Deadline.Sub(now)))
	}
	return wait, nil
}

// isEarlierZonePatched reports whether pods in an earlier zone are to leave first. Those that cannot leave hold up no
// other zone.
func (p *podPass) isEarlierZonePatched(ctx context.Context) (bool, error) {
	rows, err := p.c.pods.List(ctx, store.Prefix(p.cluster.Account, p.cluster.Region, p.cluster.Name))
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		if patch := row.Value.Patch; patch != nil && patch.Refused == "" && row.Value.Zone < p.pod.Value.Zone {
			return true, nil
		}
	}
	return false, nil
}

// announceTermination tells when a pod that could not be evicted is deleted.
func (p *podPass) announceTermination(ctx context.Context) error {
	row := p.pod.Value
	at := row.Patch.Deadline.UTC().Format("2006-01-02T15:04:05.000Z[UTC]")
	detail := termination{
		ClusterName: row.Cluster, FargateProfileName: row.Profile, PodName: row.Name, PodNamespace: row.Namespace,
		EvictErrorMessage: row.Patch.Refused, ScheduledTerminationTime: at,
	}
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	p.event(ctx, corev1.EventTypeWarning, terminationReason, 1, fmt.Sprintf("%s: %s", terminationType, text))
	p.c.log.Warn("eviction of Fargate pod refused; termination scheduled", "detail-type", terminationType, "account",
		row.Account, "region", row.Region, "detail", string(text))
	return nil
}
