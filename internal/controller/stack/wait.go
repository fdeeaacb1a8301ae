package stack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Own returns the resource types that CloudFormation makes itself: wait conditions, whose signals are in the store, and
// nested stacks. endpoint is that of [Types].
func Own(s *store.Store, endpoint func(region string) string) TypeTable {
	return TypeTable{
		"AWS::CloudFormation::Stack": {Handler: nested{}, NameLimit: 128, Tagged: true,
			Refused: []string{"NotificationARNs"}},
		"AWS::CloudFormation::WaitCondition": {Handler: waitCondition{record.StackSignals(s), record.StackResources(s)},
			NameLimit: 255},
		"AWS::CloudFormation::WaitConditionHandle": {Handler: waitHandle{endpoint}},
	}
}

// waitHandle makes URLs to which signals are sent.
type waitHandle struct{ endpoint func(region string) string }

// Create is part of resource.Handler. The URL is valid once it is recorded.
func (h waitHandle) Create(_ context.Context, r *resource.Request) (resource.Result, error) {
	id := r.PhysicalID
	if id == "" {
		var token [32]byte
		rand.Read(token[:])
		stack := record.Stack{Account: r.Account, Region: r.Region, ID: r.StackID[strings.LastIndexByte(r.StackID, '/')+1:]}
		id = revision.WaitConditionURL(h.endpoint(r.Region), stack, r.LogicalID, hex.EncodeToString(token[:]))
	}
	return resource.Result{PhysicalID: id}, nil
}

// Update is part of resource.Handler: there is nothing to change.
func (waitHandle) Update(_ context.Context, r *resource.Request) (resource.Result, error) {
	return resource.Result{PhysicalID: r.PhysicalID}, nil
}

// Delete is part of resource.Handler: the URL goes with its record.
func (waitHandle) Delete(_ context.Context, r *resource.Request) (resource.Result, error) {
	return resource.Result{PhysicalID: r.PhysicalID}, nil
}

// Read is part of resource.Handler.
func (waitHandle) Read(_ context.Context, r *resource.Request) (properties, attributes map[string]any, err error) {
	return r.Properties, nil, nil
}

// waitCondition waits for signals to a handle.
type waitCondition struct {
	signals   store.Table[record.StackSignal]
	resources store.Table[record.StackResource]
}

// isHandle reports whether a URL is that of the handle which it names: what was sent there is for those who know it.
func (h waitCondition) isHandle(ctx context.Context, url string, parts []string) (bool, error) {
	row, err := h.resources.Get(ctx, record.StackResourceKey(parts[0], parts[1], parts[2], parts[3]))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	live := row.Value.Live
	return live != nil && live.Type == "AWS::CloudFormation::WaitConditionHandle" && live.PhysicalID == url, err
}

// Create is part of resource.Handler.
func (h waitCondition) Create(ctx context.Context, r *resource.Request) (resource.Result, error) {
	if r.Properties["Handle"] == nil {
		// A wait condition with a CreationPolicy gets its signals by SignalResource.
		return h.made(r, nil), nil
	}
	handle, err := url.Parse(fmt.Sprint(r.Properties["Handle"]))
	parts := []string{}
	if err == nil {
		parts = strings.Split(strings.TrimPrefix(handle.Path, revision.WaitConditionPrefix), "/")
	}
	if len(parts) != 4 || parts[0] != r.Account || parts[1] != r.Region {
		return resource.Result{}, resource.Errorf(resource.InvalidRequest, "Handle is not a wait condition handle")
	}
	if ok, err := h.isHandle(ctx, fmt.Sprint(r.Properties["Handle"]), parts); err != nil {
		return resource.Result{}, err
	} else if !ok {
		return resource.Result{}, resource.Errorf(resource.InvalidRequest, "Handle is not a wait condition handle")
	}
	since, err := time.Parse(time.RFC3339Nano, r.Progress["since"])
	if err != nil {
		since = r.Now().UTC()
	}
	rows, err := h.signals.List(ctx, store.Prefix(parts...))
	if err != nil {
		return resource.Result{}, err
	}
	data, count := map[string]string{}, numberOf(r.Properties["Count"], 1)
	for _, row := range rows {
		if !row.Value.Success {
			return resource.Result{PhysicalID: r.Name}, resource.Errorf(resource.GeneralServiceException,
				"WaitCondition received failed message: '%s' for uniqueId: %s", row.Value.Reason, row.Value.UniqueID)
		}
		data[row.Value.UniqueID] = row.Value.Data
	}
	if len(data) >= count {
		return h.made(r, data), nil
	}
	timeout := time.Duration(numberOf(r.Properties["Timeout"], 0)) * time.Second
	if r.Now().Sub(since) >= timeout {
		return resource.Result{PhysicalID: r.Name}, resource.Errorf(resource.NotStabilized,
			"WaitCondition timed out. Received %d conditions when expecting %d", len(data), count)
	}
	return resource.Result{PhysicalID: r.Name, Pending: maxDelay,
		Progress: map[string]string{"since": since.Format(time.RFC3339Nano)}}, nil
}

func (waitCondition) made(r *resource.Request, data map[string]string) resource.Result {
	text := "{}"
	if len(data) > 0 {
		encoded, err := json.Marshal(data)
		if err == nil {
			text = string(encoded)
		}
	}
	return resource.Result{PhysicalID: r.Name, Attributes: map[string]any{"Data": text}}
}

// Update is part of resource.Handler: on AWS, a wait condition cannot be updated.
func (waitCondition) Update(_ context.Context, r *resource.Request) (resource.Result, error) {
	return resource.Result{PhysicalID: r.PhysicalID}, resource.Errorf(resource.NotUpdatable,
		"Update to resource type AWS::CloudFormation::WaitCondition is not supported.")
}

// Delete is part of resource.Handler.
func (waitCondition) Delete(_ context.Context, r *resource.Request) (resource.Result, error) {
	return resource.Result{PhysicalID: r.PhysicalID}, nil
}

// Read is part of resource.Handler.
func (waitCondition) Read(_ context.Context, r *resource.Request) (properties, attributes map[string]any, err error) {
	return r.Properties, nil, nil
}
