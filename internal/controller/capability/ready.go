package capability

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// probeTimeout bounds the wait for the answer of a program.
const probeTimeout = 2 * time.Second

// checkReady returns errStarting unless the program says, at the address of its health, that it is ready.
func checkReady(ctx context.Context, probe string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+probe+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", errStarting, err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<10))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: /readyz answers %s", errStarting, response.Status)
	}
	return nil
}
