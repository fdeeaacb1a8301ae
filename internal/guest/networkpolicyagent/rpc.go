package networkpolicyagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
)

// The protocol is that of rpc.proto of amazon-vpc-cni-k8s. Its few fields are read and written as unknown fields of
// an empty message: the generated package comes with a module of which nothing else is needed here.
// https://github.com/aws/amazon-vpc-cni-k8s/blob/master/rpc/rpc.proto
const (
	backendService = "rpc.NPBackend"
	configMethod   = "/rpc.ConfigServerBackend/GetNetworkPolicyConfigs"

	// of EnforceNpRequest and DeleteNpRequest
	fieldPodName      = 1
	fieldPodNamespace = 2
	fieldMode         = 3
	// of EnforceNpReply and DeleteNpReply
	fieldSuccess = 1
	// of NetworkPolicyAgentConfigReply
	fieldConfigMode = 1
	fieldNodeIPv4   = 3
	fieldNodeIPv6   = 4
)

// The values of NETWORK_POLICY_ENFORCING_MODE.
const (
	modeStandard = "standard"
	modeStrict   = "strict"
)

// readStrings returns the string fields of a message, by number.
func readStrings(m *emptypb.Empty) map[protowire.Number]string {
	fields := map[protowire.Number]string{}
	for rest := m.ProtoReflect().GetUnknown(); len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			break
		}
		rest = rest[n:]
		if kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(rest)
			if n < 0 {
				break
			}
			fields[number], rest = string(value), rest[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, rest); n < 0 {
			break
		}
		rest = rest[n:]
	}
	return fields
}

// succeeded returns a reply with Success set.
func succeeded() *emptypb.Empty {
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, fieldSuccess, protowire.VarintType), 1))
	return m
}

// backend is what the CNI plugin asks: of pods before they start and after they have ended.
type backend struct {
	log   *zap.SugaredLogger
	state *state // nil while policies are not enforced
}

// knownWithin bounds the time for which a pod waits for the agent to know the policies of the cluster. The kubelet
// tries again.
const knownWithin = 20 * time.Second

func (b *backend) enforce(ctx context.Context, in *emptypb.Empty) (*emptypb.Empty, error) {
	fields := readStrings(in)
	pod := podRef{Namespace: fields[fieldPodNamespace], Name: fields[fieldPodName]}
	if b.state == nil {
		b.log.Debug("Network policy is disabled, returning success")
		return succeeded(), nil
	}
	mode := fields[fieldMode]
	b.log.Infof("Received Enforce Network Policy Request for Pod: %s Namespace: %s Mode: %s", pod.Name, pod.Namespace,
		mode)
	if mode != modeStandard && mode != modeStrict {
		return nil, status.Errorf(codes.InvalidArgument, "Invalid Network Policy Mode %q", mode)
	}
	ctx, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	if err := b.state.addPod(ctx, pod, mode == modeStrict); err != nil {
		b.log.Errorf("Failed to enforce network policies for pod %s namespace %s: %v", pod.Name, pod.Namespace, err)
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return succeeded(), nil
}

func (b *backend) forget(_ context.Context, in *emptypb.Empty) (*emptypb.Empty, error) {
	fields := readStrings(in)
	pod := podRef{Namespace: fields[fieldPodNamespace], Name: fields[fieldPodName]}
	if b.state == nil {
		b.log.Debug("Network policy is disabled, returning success")
		return succeeded(), nil
	}
	b.log.Infof("Received Delete Network Policy Request for Pod: %s Namespace: %s", pod.Name, pod.Namespace)
	if err := b.state.removePod(pod); err != nil {
		b.log.Errorf("Failed to forget pod %s namespace %s: %v", pod.Name, pod.Namespace, err)
		return nil, status.Error(codes.Internal, err.Error())
	}
	return succeeded(), nil
}

// method returns a method of the service.
func method(name string, call func(*backend, context.Context, *emptypb.Empty) (*emptypb.Empty, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(server any, ctx context.Context, decode func(any) error,
		_ grpc.UnaryServerInterceptor) (any, error) {
		in := &emptypb.Empty{}
		if err := decode(in); err != nil {
			return nil, err
		}
		return call(server.(*backend), ctx, in)
	}}
}

var backendDesc = grpc.ServiceDesc{
	ServiceName: backendService, HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{method("EnforceNpToPod", (*backend).enforce), method("DeletePodNp", (*backend).forget)},
}

// serve answers the CNI plugin at a socket until ctx ends.
func (b *backend) serve(ctx context.Context, socket string) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil { //nolint:gosec // shared with ipamd
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	server.RegisterService(&backendDesc, b)
	stopped := context.AfterFunc(ctx, server.GracefulStop)
	defer stopped()
	b.log.Infof("Serving RPC Handler on Unix socket: %s", socket)
	return server.Serve(l)
}

// pluginConfig is what ipamd says.
type pluginConfig struct {
	mode string
	node netip.Addr // invalid where an older ipamd does not say it
}

// askPlugin asks ipamd at a socket.
func askPlugin(ctx context.Context, socket string, six bool) (c pluginConfig, err error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return c, err
	}
	defer conn.Close()
	out := &emptypb.Empty{}
	if err := conn.Invoke(ctx, configMethod, &emptypb.Empty{}, out); err != nil {
		return c, fmt.Errorf("ask ipamd at %s: %w", socket, err)
	}
	fields := readStrings(out)
	c.mode = fields[fieldConfigMode]
	text := fields[fieldNodeIPv4]
	if six {
		text = fields[fieldNodeIPv6]
	}
	c.node, _ = netip.ParseAddr(text)
	return c, nil
}
