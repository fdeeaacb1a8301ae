//go:build linux

package csidriver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// connect returns a connection to the driver, which may not be there yet.
func connect(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+strings.TrimPrefix(strings.TrimPrefix(address, "unix:"), "//"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// NewLogger returns the log of a driver.
func NewLogger(verbosity int, asJSON bool) *slog.Logger {
	h := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbosity >= 4 {
		h.Level = slog.LevelDebug
	}
	if asJSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, h))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, h))
}

// Run parses arguments, runs until SIGTERM, and returns the exit status.
func Run(flags *flag.FlagSet, args []string, run func(context.Context, *slog.Logger) error) int {
	verbosity := flags.Int("v", 2, "verbosity of the log, 0 to 10: requests from 4 on")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	log := NewLogger(*verbosity, false)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, log); err != nil {
		log.Error(flags.Name()+" ends", "error", err)
		return 1
	}
	return 0
}

const headerTime = 10 * time.Second

// serveHealth answers probes at an address until the context ends.
func serveHealth(ctx context.Context, address string, healthy func(context.Context) error) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := healthy(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "ok")
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: headerTime}
	stopped := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stopped()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Liveness runs the program "livenessprobe", which answers probes of kubelet by asking the driver, and returns the exit
// status.
func Liveness(args []string) int {
	flags := flag.NewFlagSet("livenessprobe", flag.ContinueOnError)
	address := flags.String("csi-address", "/run/csi/socket", "socket of the driver")
	timeout := flags.Duration("probe-timeout", time.Second, "longest time of an answer of the driver")
	port := flags.Int("health-port", 9808, "port of /healthz")
	endpoint := flags.String("http-endpoint", "", "address of /healthz, instead of --health-port")
	return Run(flags, args, func(ctx context.Context, _ *slog.Logger) error {
		c, err := connect(*address)
		if err != nil {
			return err
		}
		defer c.Close()
		if *endpoint == "" {
			*endpoint = ":" + strconv.Itoa(*port)
		}
		return serveHealth(ctx, *endpoint, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, *timeout)
			defer cancel()
			out, err := csi.NewIdentityClient(c).Probe(ctx, &csi.ProbeRequest{})
			if err == nil && out.GetReady() != nil && !out.GetReady().GetValue() {
				err = errors.New("the driver is not ready")
			}
			return err
		})
	})
}

// registrar tells kubelet about the driver.
type registrar struct {
	registration.UnimplementedRegistrationServer
	driver, socket string
	failed         chan string
}

// GetInfo answers where kubelet finds the driver.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: r.driver, Endpoint: r.socket,
		SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus ends the program when kubelet did not take the driver, so that it is started anew.
func (r *registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (
	*registration.RegistrationStatusResponse, error) {
	if !s.GetPluginRegistered() {
		select {
		case r.failed <- s.GetError():
		default:
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// Registrar runs the program "csi-node-driver-registrar" and returns the exit status.
func Registrar(args []string) int {
	flags := flag.NewFlagSet("csi-node-driver-registrar", flag.ContinueOnError)
	address := flags.String("csi-address", "/run/csi/socket", "socket of the driver")
	socket := flags.String("kubelet-registration-path", "", "socket of the driver, as kubelet sees it")
	dir := flags.String("plugin-registration-path", "/registration", "directory that kubelet watches")
	health := flags.String("http-endpoint", "", "address of /healthz; none when empty")
	return Run(flags, args, func(ctx context.Context, log *slog.Logger) error {
		if *socket == "" {
			return errors.New("--kubelet-registration-path is required")
		}
		name, err := askName(ctx, *address)
		if err != nil {
			return err
		}
		path := registrationSocket(*dir, name)
		if *health != "" {
			go func() {
				if err := serveHealth(ctx, *health, func(context.Context) error {
					_, err := os.Stat(path)
					return err
				}); err != nil {
					log.Error("probes are not answered", "error", err)
				}
			}()
		}
		return Register(ctx, log, name, *socket, *dir)
	})
}

func registrationSocket(dir, driver string) string { return filepath.Join(dir, driver+"-reg.sock") }

// Register makes a driver known to kubelet, which watches the directory and finds the driver at the socket, until the
// context ends or kubelet does not take it.
func Register(ctx context.Context, log *slog.Logger, driver, socket, dir string) error {
	r := &registrar{driver: driver, socket: socket, failed: make(chan string, 1)}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case reason := <-r.failed:
			cancel(fmt.Errorf("kubelet did not register the driver: %s", reason))
		case <-ctx.Done():
		}
	}()
	path := registrationSocket(dir, driver)
	err := Serve(ctx, log, path, func(s *grpc.Server) { registration.RegisterRegistrationServer(s, r) })
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return errors.Join(err, removeFile(path))
}

// removeFile removes a socket, if the listener has not.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// askName asks the driver for its name until it answers.
func askName(ctx context.Context, address string) (string, error) {
	c, err := connect(address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	var name string
	err = Poll(ctx, func() (bool, error) {
		out, err := csi.NewIdentityClient(c).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
		name = out.GetName()
		return err == nil, nil
	})
	return name, err
}
