// Command idemvet finds code of guarded handlers that costs money later. It is a tool of go vet:
//
//	go install github.com/auth19/idem/core/idemvet@latest
//	go vet -vettool=$(which idemvet) ./...
//
// It has four checks:
//
//   - straywrite: a handler of a guarded Rollback or Resume route writes through a *gorm.DB that neither comes from
//     gormstore.Tx, TxFrom or Step nor has the request's context. The write stays when the attempt is rolled back, and the
//     write guard cannot see it. A handler that the attempt's row locks block waits for itself. For GORM,
//     context.Background(), context.TODO() and a *gin.Context are not the request's context.
//   - attemptctx: context.Background(), context.TODO() or a *gin.Context is given to a function that looks for the
//     attempt.
//   - txgoroutine: a goroutine uses the transaction of an attempt. The attempt may have ended by then, and a transaction
//     must not be used by two goroutines.
//   - freshkey: a retry loop sends a new Idempotency-Key at each try, so that each try is a new command.
//
// straywrite follows calls, also into other packages and through interfaces, from the routes that are mounted behind
// Idempotent or Interceptor. It leaves out routes whose policy in a core.Routes literal says Park or Exempt.
//
// A finding that is meant so is silenced on its line, or on the line above: //idemvet:ignore and the reason.
package main

import "golang.org/x/tools/go/analysis/unitchecker"

func main() { unitchecker.Main(strayWrite, attemptCtx, txGoroutine, freshKey) }
