package cloudformation

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxSignals is the number of signals that a resource keeps.
const maxSignals = 1000

// signalHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) signalHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.SignalResource, func(
			ctx context.Context, action string, in *cloudformation.SignalResourceInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName)
		}),
	}
}

// SignalResource signals a resource that waits for it, because of its CreationPolicy or UpdatePolicy.
func (s *Service) SignalResource(ctx context.Context, in *cloudformation.SignalResourceInput) (
	*cloudformation.SignalResourceOutput, error) {
	v, err := s.getLive(ctx, in.StackName)
	if err != nil {
		return nil, err
	}
	id := aws.ToString(in.LogicalResourceId)
	if !slices.Contains(in.Status.Values(), in.Status) {
		return nil, validation("1 validation error detected: Value '%s' at 'status' failed to satisfy constraint: Member "+
			"must satisfy enum value set: [FAILURE, SUCCESS]", in.Status)
	}
	if unique := aws.ToString(in.UniqueId); unique == "" || len(unique) > 64 {
		return nil, validation("1 validation error detected: Value '%s' at 'uniqueId' failed to satisfy constraint: "+
			"Member must have a length of 1 to 64", unique)
	}
	row, err := s.resources.Get(ctx, record.StackResourceKey(v.Account, v.Region, v.ID, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, validation("Resource %s does not exist for stack %s", id, v.Name)
	}
	if err != nil {
		return nil, err
	}
	if row.Value.Work == nil || row.Value.Work.Action == record.ResourceDelete {
		return nil, validation("Resource %s is in %s state and can not be signaled", id, row.Value.Status)
	}
	signal := record.StackSignal{Account: v.Account, UniqueID: *in.UniqueId, At: s.now().UTC(),
		Success: in.Status == types.ResourceSignalStatusSuccess}
	if err := s.recordSignal(ctx, v.Stack, id, signal); err != nil {
		return nil, err
	}
	return &cloudformation.SignalResourceOutput{}, nil
}

// recordSignal records a signal. The first one with a unique ID counts.
func (s *Service) recordSignal(ctx context.Context, v record.Stack, logicalID string, signal record.StackSignal) error {
	if s.signals.Count(store.Prefix(v.Account, v.Region, v.ID, logicalID)) >= maxSignals {
		return limitExceeded("The resource has too many signals")
	}
	_, err := s.signals.Create(ctx, record.StackSignalKey(v.Account, v.Region, v.ID, logicalID, signal.UniqueID), signal)
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// maxSignalBody is the maximum size of a signal in bytes.
const maxSignalBody = 64 << 10

// WaitConditions answers the signals that are sent to wait condition handles: PUT, as to the presigned URLs of AWS,
// with an object of Status, UniqueId, Data and Reason.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-waitcondition.html
func (s *Service) WaitConditions(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, revision.WaitConditionPrefix), "/")
	if r.Method != http.MethodPut && r.Method != http.MethodPost {
		http.Error(w, "send the signal with PUT", http.StatusMethodNotAllowed)
		return
	}
	forbidden := func() { http.Error(w, "The URL is not that of a wait condition handle.", http.StatusForbidden) }
	if len(parts) != 4 {
		forbidden()
		return
	}
	stack, err := s.stacks.Get(r.Context(), record.StackKey(parts[0], parts[1], parts[2]))
	if err != nil {
		forbidden()
		return
	}
	row, err := s.resources.Get(r.Context(), record.StackResourceKey(parts[0], parts[1], parts[2], parts[3]))
	if err != nil || row.Value.Type != "AWS::CloudFormation::WaitConditionHandle" || row.Value.Live == nil {
		forbidden()
		return
	}
	handle, err := url.Parse(row.Value.Live.PhysicalID)
	if err != nil {
		forbidden()
		return
	}
	token := handle.Query().Get("token")
	if token == "" || subtle.ConstantTimeCompare([]byte(token), []byte(r.URL.Query().Get("token"))) != 1 {
		forbidden()
		return
	}
	var body struct {
		Status, Reason string
		UniqueID       string `json:"UniqueId"`
		Data           json.RawMessage
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSignalBody))
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil || body.Status != "SUCCESS" && body.Status != "FAILURE" || body.UniqueID == "" ||
		len(body.UniqueID) > 256 {
		http.Error(w, "The body must be a JSON object with Status (SUCCESS or FAILURE), UniqueId, Data and Reason.",
			http.StatusBadRequest)
		return
	}
	data := string(body.Data)
	var unquoted string
	if json.Unmarshal(body.Data, &unquoted) == nil {
		data = unquoted
	}
	if len(data)+len(body.Reason) > 4096 {
		http.Error(w, "Data and Reason may have 4096 bytes together.", http.StatusBadRequest)
		return
	}
	signal := record.StackSignal{Account: parts[0], UniqueID: body.UniqueID, Success: body.Status == "SUCCESS",
		Reason: body.Reason, Data: data, At: s.now().UTC()}
	err = s.recordSignal(store.Limited(r.Context()), stack.Value, parts[3], signal)
	if err != nil {
		http.Error(w, "The signal could not be recorded.", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}
