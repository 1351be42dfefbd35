// The one door to Preact and htm. Every other file imports from here, so that a newer version of the libraries changes
// this file alone.

export {
  html,
  useCallback,
  useEffect,
  useErrorBoundary,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "../vendor/htm-preact-standalone.module.js";
