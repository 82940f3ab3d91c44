// rxjs has no modules for browsers, only a bundle. index.html loads it as a script.
export const {
  EMPTY, Observable, ReplaySubject, Subject, catchError, concatMap, defaultIfEmpty, defer, filter, finalize, from,
  lastValueFrom, map, mergeAll, mergeMap, of, pipe, switchMap, takeUntil, tap, throwError,
} = globalThis.rxjs;
