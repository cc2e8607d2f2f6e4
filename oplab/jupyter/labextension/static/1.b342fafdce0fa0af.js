"use strict";(self.rspackChunkoplab_lab=self.rspackChunkoplab_lab||[]).push([[1],{26(a,o,e){var t=e(27),p=e.n(t),r=e(28),l=(e.n(r))()(p());l.push([a.id,`/* Operator Lab in JupyterLab. All colours follow JupyterLab's theme; those of the states have enough contrast on both.
   Nothing here has an address. */

.oplab-Panel,
.oplab-Start {
  --oplab-good: #1a7f37;
  --oplab-bad: #b3261e;
  --oplab-odd: #7a5f00;
  --oplab-quiet: #59636e;
  --oplab-link: #0b57b8;
  --oplab-main: #0b57b8;
  --oplab-on-main: #fff;
  --oplab-line: var(--jp-border-color2);

  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font: var(--jp-ui-font-size1) / 1.45 var(--jp-ui-font-family);
  container-type: inline-size;
  overflow-y: auto;
}

[data-jp-theme-light='false'] .oplab-Panel,
[data-jp-theme-light='false'] .oplab-Start {
  --oplab-good: #5fce7d;
  --oplab-bad: #ff8a80;
  --oplab-odd: #e0c341;
  --oplab-quiet: #b0b8c1;
  --oplab-link: #82b6ff;
  --oplab-main: #82b6ff;
  --oplab-on-main: #0c1a2b;
}

/* JupyterLab opens a side bar at 250 px, where a message has 25 letters on a line. */
@media (min-width: 900px) {
  #jp-left-stack > .oplab-Panel.lm-Widget,
  #jp-right-stack > .oplab-Panel.lm-Widget {
    min-width: 304px;
  }
}

.oplab-Panel *,
.oplab-Start * {
  box-sizing: border-box;
}

.oplab-Panel :is(h2, h3, h4, p, ul),
.oplab-Start :is(h1, h2, p, ul, ol) {
  margin: 0;
  padding: 0;
}

.oplab-Panel :is(ul),
.oplab-MapList,
.oplab-Able ul {
  list-style: none;
}

.oplab-hidden {
  position: absolute;
  width: 1px;
  height: 1px;
  overflow: hidden;
  clip-path: inset(50%);
  white-space: nowrap;
}

.oplab-Quiet {
  color: var(--oplab-quiet);
}

.oplab-mod-good {
  color: var(--oplab-good);
}

.oplab-mod-bad {
  color: var(--oplab-bad);
}

.oplab-mod-odd {
  color: var(--oplab-odd);
}

:is(.oplab-State, .oplab-Symbol, .oplab-Legend > *).oplab-mod-quiet {
  color: var(--oplab-quiet);
}

/* --- buttons ------------------------------------------------------------------------------------------------------------ */

.oplab-Panel button,
.oplab-Start button {
  font: inherit;
  color: inherit;
  background: none;
  border: 0;
  padding: 0;
  margin: 0;
  text-align: left;
  cursor: pointer;
}

.oplab-Panel :is(button, input, a, pre, summary):focus-visible,
.oplab-Start :is(button, a, input):focus-visible {
  outline: 2px solid var(--oplab-link);
  outline-offset: 1px;
  border-radius: 3px;
}

.oplab-Panel button.oplab-Button,
.oplab-Start button.oplab-Button {
  display: inline-block;
  padding: 2px 8px;
  min-height: 26px;
  border: 1px solid var(--jp-border-color1);
  border-radius: 4px;
  background: var(--jp-layout-color1);
  text-align: center;
}

.oplab-Panel button.oplab-Button:hover:not(:disabled),
.oplab-Start button.oplab-Button:hover:not(:disabled) {
  background: var(--jp-layout-color2);
}

.oplab-Panel button.oplab-mod-main,
.oplab-Start button.oplab-mod-main {
  background: var(--oplab-main);
  border-color: var(--oplab-main);
  color: var(--oplab-on-main);
}

.oplab-Panel button.oplab-mod-main:hover:not(:disabled),
.oplab-Start button.oplab-mod-main:hover:not(:disabled) {
  background: color-mix(in srgb, var(--oplab-main) 86%, #000);
}

.oplab-Panel button.oplab-mod-quiet {
  border-color: transparent;
  color: var(--oplab-quiet);
}

.oplab-Panel button:disabled,
.oplab-Start button:disabled {
  opacity: 0.55;
  cursor: default;
}

.oplab-Panel button.oplab-Link,
.oplab-Panel button.oplab-Close {
  color: var(--oplab-link);
  text-decoration: underline;
  text-underline-offset: 2px;
  min-height: 24px;
}

/* --- the panel's head --------------------------------------------------------------------------------------------------- */

.oplab-PanelHeader {
  padding: 10px 12px 12px;
  border-bottom: 1px solid var(--oplab-line);
}

.oplab-Title {
  display: flex;
  align-items: center;
  gap: 6px;
  font-size: var(--jp-ui-font-size2);
}

.oplab-Panel button.oplab-Title {
  font-size: 15px;
  font-weight: 600;
}

.oplab-Title:hover {
  text-decoration: underline;
  text-underline-offset: 3px;
}

.oplab-TitleIcon,
.oplab-TitleIcon svg {
  display: flex;
  width: 18px;
  height: 18px;
}

.oplab-Progress {
  display: block;
  width: 100%;
  height: 6px;
  margin: 6px 0 10px;
  border: 0;
  border-radius: 3px;
  appearance: none;
  background: var(--jp-layout-color3);
}

.oplab-Progress::-webkit-progress-bar {
  background: var(--jp-layout-color3);
  border-radius: 3px;
}

.oplab-Progress::-webkit-progress-value {
  background: var(--oplab-good);
  border-radius: 3px;
}

.oplab-Progress::-moz-progress-bar {
  background: var(--oplab-good);
  border-radius: 3px;
}

.oplab-Panel button.oplab-Continue {
  width: 100%;
  min-height: 30px;
}

.oplab-Switch {
  display: flex;
  align-items: center;
  gap: 6px;
  margin-top: 8px;
  min-height: 24px;
  cursor: pointer;
}

.oplab-Switch input {
  margin: 0;
  width: 16px;
  height: 16px;
  accent-color: var(--oplab-main);
}

.oplab-Notice {
  margin: 8px 12px 0 !important;
  padding: 8px 10px !important;
  border-left: 3px solid var(--oplab-odd);
  background: var(--jp-layout-color2);
}

.oplab-Notice .oplab-Button {
  display: block;
  margin-top: 6px;
}

.oplab-Waiting {
  padding: 12px !important;
}

/* --- chapters and exercises --------------------------------------------------------------------------------------------- */

.oplab-Chapters {
  padding: 4px 0 24px !important;
}

.oplab-Chapter {
  border-left: 3px solid transparent;
}

.oplab-Chapter.oplab-mod-current {
  border-left-color: var(--oplab-main);
}

.oplab-Chapter > h3 {
  font: inherit;
}

.oplab-Panel button.oplab-ChapterHeader,
.oplab-Panel button.oplab-ExerciseHeader {
  display: flex;
  align-items: baseline;
  gap: 7px;
  width: 100%;
  padding: 5px 12px 5px 8px;
}

.oplab-ChapterHeader:hover,
.oplab-ExerciseHeader:hover {
  background: var(--jp-layout-color2);
}

.oplab-ChapterHeader::before,
.oplab-ExerciseHeader::before {
  content: '›';
  flex: 0 0 7px;
  color: var(--oplab-quiet);
  text-align: center;
}

.oplab-ChapterHeader[aria-expanded='true']::before,
.oplab-ExerciseHeader[aria-expanded='true']::before {
  transform: rotate(90deg);
}

.oplab-mod-current > h3 .oplab-Name {
  font-weight: 600;
}

.oplab-Symbol {
  flex: 0 0 1.1em;
  text-align: center;
}

.oplab-Number {
  flex: none;
  color: var(--oplab-quiet);
  font-variant-numeric: tabular-nums;
}

.oplab-Name {
  flex: 1 1 auto;
  min-width: 0;
  overflow-wrap: anywhere;
}

.oplab-Points {
  flex: none;
  color: var(--oplab-quiet);
  font-variant-numeric: tabular-nums;
  white-space: nowrap;
}

.oplab-State {
  flex: none;
  font-size: 12px;
}

.oplab-ChapterBody {
  padding: 0 0 10px;
}

.oplab-ChapterFacts {
  display: flex;
  flex-wrap: wrap;
  gap: 0 12px;
  align-items: baseline;
  padding: 0 12px 6px 37px !important;
}

.oplab-Deeper {
  padding: 8px 12px 2px 37px !important;
  font-size: 12px;
  font-weight: 600;
  color: var(--oplab-quiet);
}

.oplab-Panel button.oplab-ExerciseHeader {
  flex-wrap: wrap; /* in a narrow panel the state goes below the name */
  padding-left: 23px;
}

.oplab-ExerciseHeader .oplab-Name {
  max-width: calc(100% - 3.5em); /* beside the symbol, however long it is */
}

.oplab-ExerciseHeader .oplab-State {
  flex: 0 1 auto;
  min-width: 0;
  margin-left: auto;
}

.oplab-ExerciseHeader .oplab-Name {
  font-family: var(--jp-code-font-family);
  font-size: 12.5px;
}

.oplab-ExerciseHeader[aria-expanded='true'] .oplab-Name {
  font-weight: 600;
}

.oplab-ExerciseBody {
  padding: 0 12px 10px 23px;
}

.oplab-Goal::first-letter {
  text-transform: uppercase;
}

.oplab-Buttons {
  display: flex;
  flex-wrap: wrap;
  gap: 5px;
  margin: 7px 0 0;
}

.oplab-Problem {
  margin-top: 8px !important;
  color: var(--oplab-bad);
}

.oplab-Card .oplab-card {
  margin: 8px 0 0;
  font-size: 13px;
}

/* the exercise's own line, right above it, has the same words */
.oplab-Report .oplab-card .oplab-head {
  display: none;
}

.oplab-Report.oplab-mod-stale .oplab-card {
  border-left-style: dashed;
}

.oplab-Passed {
  margin-top: 8px;
}

.oplab-Passed > summary {
  color: var(--oplab-quiet);
  cursor: pointer;
}

.oplab-Report > .oplab-Quiet {
  margin-top: 8px !important;
}

.oplab-Spinner {
  display: inline-block;
  width: 0.8em;
  height: 0.8em;
  border: 2px solid var(--jp-border-color1);
  border-top-color: var(--oplab-main);
  border-radius: 50%;
  animation: oplab-turn 1s linear infinite;
}

.oplab-Seconds {
  font-variant-numeric: tabular-nums;
}

@keyframes oplab-turn {
  to {
    transform: rotate(360deg);
  }
}

@media (prefers-reduced-motion: reduce) {
  .oplab-Spinner {
    animation: none;
    border-top-color: var(--jp-border-color1);
    border-style: dotted;
  }
}

.oplab-Graphs {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(110px, 1fr));
  gap: 8px;
  margin-top: 8px;
}

.oplab-Graphs figure {
  margin: 0;
  min-width: 0;
}

.oplab-Graphs img {
  display: block;
  width: 100%;
  max-height: 260px;
  object-fit: contain;
  border: 1px solid var(--oplab-line);
  border-radius: 4px;
  background: #fff;
}

.oplab-Panel button.oplab-Graph {
  display: block;
  width: 100%;
  cursor: zoom-in;
}

.oplab-Graphs figcaption {
  color: var(--oplab-quiet);
  font-size: 12px;
  text-align: center;
}

/* --- the start page ----------------------------------------------------------------------------------------------------- */

.oplab-StartContent,
.oplab-Large {
  max-width: 1180px;
  margin: 0 auto;
  padding: 26px 22px 48px;
}

.oplab-Start h1 {
  font-size: 24px;
  font-weight: 600;
  line-height: 1.2;
}

.oplab-Start h2 {
  font-size: 16px;
  font-weight: 600;
}

.oplab-StartButtons {
  display: flex;
  flex-wrap: wrap;
  gap: 8px;
  margin-top: 14px !important;
}

.oplab-Start button.oplab-Begin,
.oplab-Start button.oplab-Continue {
  padding: 6px 16px;
  font-size: 14px;
}

.oplab-Questions {
  flex-basis: 100%;
  max-width: 60rem;
  margin-top: 18px;
}

.oplab-Questions fieldset {
  margin: 12px 0 0;
  padding: 0;
  border: 0;
}

.oplab-Questions legend {
  padding: 0;
  font-weight: 600;
}

.oplab-Questions label {
  display: flex;
  gap: 6px;
  padding: 3px 0;
}

.oplab-Questions label + p {
  padding: 0 0 3px 22px;
}

.oplab-Questions input {
  flex: none;
  margin: 3px 0 0;
  accent-color: var(--oplab-main);
}

.oplab-Start .oplab-Notice {
  margin: 14px 0 0 !important;
  max-width: 60rem;
}

.oplab-Map {
  margin-top: 24px;
}

.oplab-MapPicture {
  display: block;
  width: 100%;
  height: auto;
}

.oplab-Edges path {
  fill: none;
  stroke: var(--jp-border-color1);
  stroke-width: 1.25;
}

#oplab-head path {
  fill: context-stroke;
}

.oplab-Edges path.oplab-mod-near {
  stroke: var(--oplab-main);
  stroke-width: 2;
}

.oplab-Node rect {
  fill: var(--jp-layout-color1);
  stroke: var(--jp-border-color1);
  stroke-width: 1;
}

.oplab-Node.oplab-mod-good rect {
  fill: color-mix(in srgb, var(--oplab-good) 9%, var(--jp-layout-color1));
  stroke: var(--oplab-good);
}

.oplab-Node.oplab-mod-odd rect {
  stroke: var(--oplab-odd);
}

.oplab-Node.oplab-mod-current rect {
  stroke: var(--oplab-main);
  stroke-width: 2;
}

.oplab-Node:hover rect {
  fill: var(--jp-layout-color2);
}

.oplab-Node:focus-visible {
  outline: none !important;
}

.oplab-Node:focus-visible rect {
  stroke: var(--oplab-link);
  stroke-width: 3.5;
}

.oplab-Node text {
  fill: var(--jp-ui-font-color1);
  font-size: 12px;
  font-family: var(--jp-ui-font-family);
}

.oplab-Node .oplab-NodeNumber {
  fill: var(--oplab-quiet);
  font-variant-numeric: tabular-nums;
}

.oplab-Node.oplab-mod-good .oplab-NodeSymbol {
  fill: var(--oplab-good);
}

.oplab-Node.oplab-mod-odd .oplab-NodeSymbol {
  fill: var(--oplab-odd);
}

.oplab-Node.oplab-mod-quiet .oplab-NodeSymbol {
  fill: var(--oplab-quiet);
}

.oplab-MapList {
  display: none;
}

.oplab-Start button.oplab-MapItem {
  display: grid;
  grid-template-columns: 1.2em auto 1fr;
  gap: 0 8px;
  width: 100%;
  padding: 8px 4px;
  border-bottom: 1px solid var(--oplab-line);
}

.oplab-Start button.oplab-MapItem:hover {
  background: var(--jp-layout-color2);
}

.oplab-MapItem[aria-current] .oplab-Name {
  font-weight: 600;
}

.oplab-MapItem > .oplab-Quiet {
  grid-column: 3;
  font-size: 12px;
}

.oplab-Legend {
  display: flex;
  gap: 18px;
  margin-top: 12px !important;
  font-size: 12px;
}

.oplab-Able {
  margin-top: 28px;
  max-width: 60rem;
}

.oplab-Able li {
  display: flex;
  gap: 10px;
  padding: 4px 0;
}

@container (max-width: 700px) {
  .oplab-StartContent,
  .oplab-Large {
    padding: 18px 14px 32px;
  }

  .oplab-MapPicture,
  .oplab-Legend {
    display: none !important;
  }

  .oplab-MapList {
    display: block;
  }
}

/* what a card may need: the whole width */
.oplab-Large {
  max-width: none;
  padding: 6px 14px 14px;
}

.oplab-Large .oplab-card {
  max-width: none;
}

.oplab-Done {
  padding: 6px 12px 0 37px !important;
}

.oplab-Large .oplab-Graphs {
  grid-template-columns: repeat(auto-fit, minmax(300px, 1fr));
  gap: 20px;
  margin-top: 16px;
}

.oplab-Large .oplab-Graphs img {
  max-height: 75vh;
}

/* --- marks in the editor ------------------------------------------------------------------------------------------------ */

.oplab-Gutter {
  width: 16px;
  cursor: pointer;
}

.oplab-Sign {
  display: block;
  text-align: center;
  font-weight: 700;
  color: #b3261e;
}

.oplab-MarkedLine {
  background: rgb(179 38 30 / 12%);
}

[data-jp-theme-light='false'] .oplab-Sign {
  color: #ff8a80;
}

[data-jp-theme-light='false'] .oplab-MarkedLine {
  background: rgb(255 138 128 / 18%);
}
`,""]),e.d(o,{},{A:l})},28(a){a.exports=function(a){var o=[];return o.toString=function(){return this.map(function(o){var e="",t=void 0!==o[5];return o[4]&&(e+="@supports (".concat(o[4],") {")),o[2]&&(e+="@media ".concat(o[2]," {")),t&&(e+="@layer".concat(o[5].length>0?" ".concat(o[5]):""," {")),e+=a(o),t&&(e+="}"),o[2]&&(e+="}"),o[4]&&(e+="}"),e}).join("")},o.i=function(a,e,t,p,r){"string"==typeof a&&(a=[[null,a,void 0]]);var l={};if(t)for(var n=0;n<this.length;n++){var i=this[n][0];null!=i&&(l[i]=!0)}for(var b=0;b<a.length;b++){var d=[].concat(a[b]);t&&l[d[0]]||(void 0!==r&&(void 0===d[5]||(d[1]="@layer".concat(d[5].length>0?" ".concat(d[5]):""," {").concat(d[1],"}")),d[5]=r),e&&(d[2]&&(d[1]="@media ".concat(d[2]," {").concat(d[1],"}")),d[2]=e),p&&(d[4]?(d[1]="@supports (".concat(d[4],") {").concat(d[1],"}"),d[4]=p):d[4]="".concat(p)),o.push(d))}},o}},27(a){a.exports=function(a){return a[1]}},20(a){var o=[];function e(a){for(var e=-1,t=0;t<o.length;t++)if(o[t].identifier===a){e=t;break}return e}function t(a,t){for(var p={},r=[],l=0;l<a.length;l++){var n=a[l],i=t.base?n[0]+t.base:n[0],b=p[i]||0,d="".concat(i," ").concat(b);p[i]=b+1;var s=e(d),c={css:n[1],media:n[2],sourceMap:n[3],supports:n[4],layer:n[5]};if(-1!==s)o[s].references++,o[s].updater(c);else{var u=function(a,o){var e=o.domAPI(o);return e.update(a),function(o){o?(o.css!==a.css||o.media!==a.media||o.sourceMap!==a.sourceMap||o.supports!==a.supports||o.layer!==a.layer)&&e.update(a=o):e.remove()}}(c,t);t.byIndex=l,o.splice(l,0,{identifier:d,updater:u,references:1})}r.push(d)}return r}a.exports=function(a,p){var r=t(a=a||[],p=p||{});return function(a){a=a||[];for(var l=0;l<r.length;l++){var n=e(r[l]);o[n].references--}for(var i=t(a,p),b=0;b<r.length;b++){var d=e(r[b]);0===o[d].references&&(o[d].updater(),o.splice(d,1))}r=i}}},22(a){var o={};a.exports=function(a,e){var t=function(a){if(void 0===o[a]){var e=document.querySelector(a);if(window.HTMLIFrameElement&&e instanceof window.HTMLIFrameElement)try{e=e.contentDocument.head}catch(a){e=null}o[a]=e}return o[a]}(a);if(!t)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");t.appendChild(e)}},24(a){a.exports=function(a){var o=document.createElement("style");return a.setAttributes(o,a.attributes),a.insert(o,a.options),o}},23(a,o,e){a.exports=function(a){var o=e.nc;o&&a.setAttribute("nonce",o)}},21(a){a.exports=function(a){if("u"<typeof document)return{update:function(){},remove:function(){}};var o=a.insertStyleElement(a);return{update:function(e){var t,p,r;t="",e.supports&&(t+="@supports (".concat(e.supports,") {")),e.media&&(t+="@media ".concat(e.media," {")),(p=void 0!==e.layer)&&(t+="@layer".concat(e.layer.length>0?" ".concat(e.layer):""," {")),t+=e.css,p&&(t+="}"),e.media&&(t+="}"),e.supports&&(t+="}"),(r=e.sourceMap)&&"u">typeof btoa&&(t+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(r))))," */")),a.styleTagTransform(t,o,a.options)},remove:function(){var a;null===(a=o).parentNode||a.parentNode.removeChild(a)}}}},25(a){a.exports=function(a,o){if(o.styleSheet)o.styleSheet.cssText=a;else{for(;o.firstChild;)o.removeChild(o.firstChild);o.appendChild(document.createTextNode(a))}}},19(a,o,e){var t=e(20),p=e.n(t),r=e(21),l=e.n(r),n=e(22),i=e.n(n),b=e(23),d=e.n(b),s=e(24),c=e.n(s),u=e(25),m=e.n(u),x=e(26),f={};f.styleTagTransform=m(),f.setAttributes=d(),f.insert=i().bind(null,"head"),f.domAPI=l(),f.insertStyleElement=c(),p()(x.A,f),x.A&&x.A.locals&&x.A.locals}}]);